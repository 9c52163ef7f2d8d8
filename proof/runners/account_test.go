package runners

import (
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// completed returns a job as it must be in the end.
func completed(typ, payload string) *client.Job {
	j := &client.Job{Type: typ, Payload: []byte(payload), Output: []byte(outputOf(typ, payload)), OutputAddr: addressOf(typ, payload), Status: "completed", Code: "ok", RunAttempts: 1}
	if j.OutputAddr != "" {
		j.Output = nil
	}
	return j
}

// TestFaults: the check finds each fault, and accepts right jobs.
func TestFaults(t *testing.T) {
	var a account
	a.add(post{typ: treeType, payloads: []string{"a", "b"}, follow: true, acknowledged: true})
	a.add(post{typ: hookType, payloads: []string{"c"}, follow: true, acknowledged: true})
	a.add(post{typ: guestType, payloads: []string{"d"}, follow: true, acknowledged: true})
	a.add(post{typ: blobType, payloads: []string{"e"}, acknowledged: true})
	a.add(post{typ: scriptType, payloads: []string{"unanswered"}})
	right := func() []*client.Job {
		return []*client.Job{
			completed(treeType, "a"), completed(nextType, "a"), completed(afterType, "tree a"),
			completed(treeType, "b"), completed(nextType, "b"), completed(afterType, "tree b"),
			completed(hookType, "c"), completed(afterType, "hook c"),
			completed(guestType, "d"), completed(afterType, "guest d"), completed(blobType, "e"),
		}
	}
	again := completed(treeType, "a")
	again.RunAttempts, again.Attempts = 2, []client.Attempt{{Code: "error", Why: "abandoned"}}
	replace := func(i int, with *client.Job) []*client.Job {
		jobs := right()
		jobs[i] = with
		return jobs
	}
	with := func(change func(*client.Job)) []*client.Job {
		jobs := right()
		change(jobs[0])
		return jobs
	}
	for name, jobs := range map[string][]*client.Job{
		"all is right":          right(),
		"a run was repeated":    replace(0, again),
		"the unanswered exists": append(right(), completed(scriptType, "unanswered"), completed(nextType, "unanswered")),
	} {
		_, problems := a.check(jobs)
		testkit.Holds(t, len(problems) == 0, name, problems)
	}
	for name, c := range map[string]struct {
		jobs []*client.Job
		want string
	}{
		"a job is lost":                      {right()[3:], `tree "a" is lost`},
		"a job is doubled":                   {append(right(), completed(hookType, "c")), `hook "c" is there 2 times`},
		"the unanswered is doubled":          {append(right(), completed(scriptType, "unanswered"), completed(scriptType, "unanswered"), completed(nextType, "unanswered")), `script "unanswered" is there 2 times`},
		"a chained job is lost":              {slices.Delete(right(), 1, 2), `0 jobs of type next with the payload "a"`},
		"a chained job is doubled":           {append(right(), completed(nextType, "a")), `2 jobs of type next with the payload "a"`},
		"a job that follows is lost":         {slices.Delete(right(), 7, 8), `0 jobs of type after with the payload "hook c"`},
		"a job that follows is doubled":      {append(right(), completed(afterType, "tree b")), `2 jobs of type after with the payload "tree b"`},
		"a chained job without parent":       {append(right(), completed(nextType, "unanswered")), `"unanswered", which nobody can have created`},
		"a job follows another output":       {replace(7, completed(afterType, "hook d")), `"hook d", which nobody can have created`},
		"a job that nobody posted":           {append(right(), completed("x", "y")), `"y", which nobody can have created`},
		"a job is unfinished":                {with(func(j *client.Job) { j.Status, j.Code = "active", "" }), `tree "a" is active`},
		"a job has failed":                   {with(func(j *client.Job) { j.Status, j.Code = "failed", "error" }), `tree "a" is failed (error)`},
		"a job has the output of another":    {with(func(j *client.Job) { j.Output = []byte("tree b") }), `the output "tree b"`},
		"an output has another address":      {replace(10, &client.Job{Type: blobType, Payload: []byte("e"), OutputAddr: addressOf(blobType, "d"), Status: "completed", Code: "ok", RunAttempts: 1}), `blob "e" has the output "" at "sha256:`},
		"an output has no address":           {replace(10, &client.Job{Type: blobType, Payload: []byte("e"), Output: []byte("guest e"), Status: "completed", Code: "ok", RunAttempts: 1}), `blob "e" has the output "guest e" at ""`},
		"a run has no outcome":               {with(func(j *client.Job) { j.RunAttempts = 2 }), `tree "a" ran 2 times, and 0`},
		"a job has two outcomes":             {with(func(j *client.Job) { j.RunAttempts, j.Attempts = 2, []client.Attempt{{Code: "ok"}} }), `more than one outcome`},
		"a chained job has not been run yet": {replace(1, &client.Job{Type: nextType, Payload: []byte("a"), Status: "pending"}), `next "a" is pending`},
	} {
		if _, problems := a.check(c.jobs); !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
			t.Errorf("%s: the check found %q, not %q", name, problems, c.want)
		}
	}
	if got, _ := a.check(replace(0, again)); got != (tally{Acknowledged: 5, Jobs: 5, Guests: 2, Next: 2, After: 4, Runs: 12, Repeated: 1, Abandoned: 1}) || a.acknowledged() != 5 {
		t.Errorf("%+v, %d", got, a.acknowledged())
	}
}
