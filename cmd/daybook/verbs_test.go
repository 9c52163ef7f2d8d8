package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// asked is a server in this test, and a way to run commands with it.
type asked struct {
	*testing.T
	s *server
}

func startAsked(t *testing.T) *asked {
	return &asked{t, serving(t, filepath.Join(t.TempDir(), "data"))}
}

func (a *asked) run(in string, args ...string) result {
	a.Helper()
	return execute(a.T, in, append(args, "--server", a.s.url)...)
}

// do runs a command that must succeed, and returns its output without the last newline.
func (a *asked) do(args ...string) string {
	a.Helper()
	return strings.TrimSuffix(ok(a.T, append(args, "--server", a.s.url)...), "\n")
}

// TestVerbsOfAJob: a job goes through its life by commands alone.
func TestVerbsOfAJob(t *testing.T) {
	a := startAsked(t)
	id := a.do("create", "--type", "resize", "--meta", "user=42", "--priority", "7", "--unique-key", "cat", "cat.jpg")
	if r := a.run("", "create", "--type", "resize", "--unique-key", "cat", "dog.jpg"); r.code != terminal.ExitOK || strings.TrimSpace(r.out) != id || !strings.Contains(r.errs, "no job was created") {
		t.Errorf("a second job with the key: %+v, want %s", r, id)
	}
	a.run("", "create", "--value", `{"a":1,"a":2}`).ends(t, terminal.ExitUsage) // a name twice
	testkit.Contains(t, a.do("jobs", "--meta", "user=42"), id, "default/resize", "pending")
	r := a.run("", "claim", "--type", "other")
	testkit.Holds(t, r.code == terminal.ExitNotFound && r.out+r.errs == "", "a claim that finds nothing", r)
	claim := a.do("claim", "--type", "resize", "--runner-id", "mixer")
	testkit.Contains(t, claim, id, "cat.jpg")
	claimID := uuids.FindString(claim)
	testkit.Contains(t, a.do("runners"), "mixer")
	testkit.Contains(t, a.do("runners", "mixer"), claimID)
	testkit.Contains(t, a.do("tickle", id, "--claim", claimID, "--step", "reading", "--progress", "0.25"), id+" active")
	testkit.Contains(t, a.do("tickle", "--claim", claimID), "held: 1 job, lost: 0")
	testkit.Contains(t, a.do("release", id, "--claim", claimID), id+" pending")
	a.run("", "tickle", id, "--claim", claimID).ends(t, terminal.ExitRefused) // a tickle of a released job
	a.run("", "complete", id, "--code", "ok").ends(t, terminal.ExitRefused, "read it to see whether it waits, or how it ended")
	a.run("", "claim", "--strategy", "prefer_distinct").ends(t, terminal.ExitUsage, "such as prefer_distinct:user/random")
	claimID = uuids.FindString(a.do("claim", "--type", "resize", "--strategy", "prefer_distinct:user/random"))
	testkit.Contains(t, a.do("complete", id, "--claim", claimID, "--code", "failed", "--error", "no such file"), id+" failed")
	testkit.Contains(t, a.do("jobs", "--status", "failed"), id, "no such file", "1/3")
	testkit.Contains(t, a.do("redrive", id), id+" pending")
	testkit.Contains(t, a.do("cancel", id), id+" cancelled")
	a.run("", "run", id).ends(t, terminal.ExitRefused) // run of a cancelled job
	testkit.Contains(t, a.do("rm", id), id+" removed")
	a.run("", "get", id).ends(t, terminal.ExitNotFound) // get of a removed job
}

// TestCreateWaits: the exit code of create --wait is the outcome of the job.
func TestCreateWaits(t *testing.T) {
	a := startAsked(t)
	for _, c := range []struct {
		outcome []string
		code    int
		out     string
	}{
		{[]string{"--output", "6"}, terminal.ExitOK, "6"},
		{[]string{"--code", "failed", "--error", "too many"}, terminal.ExitJobFailed, ""},
	} {
		done := make(chan result, 1)
		go func() { done <- a.run("", "create", "--wait", "1 2 3") }()
		claim := a.do("claim", "--wait", "30s")
		ids := uuids.FindAllString(claim, -1)
		testkit.MustEqual(t, len(ids), 2, claim)
		a.do(append([]string{"complete", ids[1]}, c.outcome...)...)
		if r := <-done; r.code != c.code || r.out != c.out {
			t.Errorf("create --wait of a job that ended with %v: %+v", c.outcome, r)
		} else if c.code != terminal.ExitOK {
			testkit.Contains(t, r.errs, "has failed: too many")
		}
	}
	r := a.run("", "create", "--wait", "--wait-timeout", "50ms", "--type", "nobody", "x")
	id := uuids.FindString(r.errs)
	testkit.Holds(t, r.code == terminal.ExitTimeout && strings.Contains(a.do("get", id), "pending"), "create --wait-timeout", r)
	a.run("", "create", "--wait-timeout", "1s", "x").ends(t, terminal.ExitUsage)
}

// TestRedriveOfEndedBatch: jobs of an ended submission are refused, with --dry-run too, and the text has the next step.
func TestRedriveOfEndedBatch(t *testing.T) {
	a := startAsked(t)
	batch := strings.TrimSpace(a.run("1\n2\n", "submit", "--type", "sub").out)
	jobs := strings.Fields(a.do("jobs", "--type", "sub", "--ids"))
	a.do("cancel", jobs[0])
	testkit.Contains(t, a.do("redrive", jobs[0], "--dry-run"), "is cancelled and would be redriven")
	testkit.Contains(t, a.do("redrive", "--batch", batch, "--status", "cancelled", "--dry-run"), "would redrive 1 job of the batch")
	a.do("cancel", jobs[1])
	for _, args := range [][]string{{"--batch", batch}, {"--batch", batch, "--status", "cancelled"}, {jobs[0]}} {
		real, dry := a.run("", append([]string{"redrive"}, args...)...), a.run("", append([]string{"redrive", "--dry-run"}, args...)...)
		dry.line = real.line
		testkit.Equal(t, real.code, terminal.ExitRefused, args)
		testkit.Equal(t, dry, real, args)
		testkit.Contains(t, real.errs, "409 batch_ended", `"daybook submit" can post the payloads of its jobs again`)
	}
	of := []string{"redrive", "--queue", "default/sub", "--status", "cancelled"}
	testkit.Contains(t, a.do(append(of, "--dry-run")...), `2 cancelled; a job of a batch of "daybook submit" that has ended cannot run again`)
	testkit.Contains(t, a.do(of...), "redriven 0 jobs of the queue default/sub; 2 were left: a job of a batch")

	lines := uuids.FindString(a.run("1\n", "add", "--type", "lines").out) // a batch without attributes
	a.do("cancel", "--batch", lines)
	testkit.Contains(t, a.do("redrive", "--batch", lines, "--status", "cancelled", "--dry-run"), "would redrive 1 job")
	testkit.Contains(t, a.do("redrive", "--batch", lines, "--status", "cancelled"), "redriven 1 job")
	one := a.do("create", "p")
	a.do("cancel", one)
	testkit.Contains(t, a.do("redrive", one, "--dry-run"), "would be redriven")
	testkit.Contains(t, a.do("redrive", one), "pending")
}

// TestJobsIDs: --ids lists all jobs, since another command reads them; --limit lists fewer, and prints that there are
// more.
func TestJobsIDs(t *testing.T) {
	a := startAsked(t)
	a.run(strings.Repeat("x\n", 130), "add", "--type", "many")
	r := a.run("", "jobs", "--type", "many", "--ids")
	n := strings.Count(r.out, "\n")
	testkit.Holds(t, r.code == terminal.ExitOK && n == 130 && r.errs == "", n, "ids, exit code", r.code, r.errs)
	ended := a.run(r.out, "cancel", "--job", "-")
	testkit.Holds(t, ended.code == terminal.ExitOK && strings.Count(ended.out, "cancelled") == 130, ended)
	r = a.run("", "jobs", "--type", "many", "--ids", "--limit", "100")
	if n := strings.Count(r.out, "\n"); r.code != terminal.ExitOK || n != 100 || r.errs != "there are more than 100 jobs; --limit 0 lists all\n" {
		t.Errorf("%d ids, exit code %d: %s", n, r.code, r.errs)
	}
	testkit.Contains(t, a.run("", "jobs", "--type", "many").errs, "there are more than 100 jobs")
}

// TestRunNow: deferred jobs run now, by their ids or as a list, which --dry-run only counts. For many, the command asks
// first.
func TestRunNow(t *testing.T) {
	a := startAsked(t)
	a.run(strings.Repeat("x\n", 1001), "add", "--type", "late", "--delay", "1h")
	list := a.do("jobs", "--type", "late", "--status", "deferred", "--ids")
	few := strings.Join(strings.SplitAfter(list, "\n")[:3], "")
	dry := a.run(few, "run", "--job", "--dry-run", "-")
	testkit.Holds(t, dry.code == terminal.ExitOK && strings.Count(dry.out, "is deferred and would be made pending") == 3, dry)
	done := a.run(few, "run", "--job", "-")
	testkit.Holds(t, done.code == terminal.ExitOK && strings.Count(done.out, "pending") == 3, done)
	testkit.Contains(t, a.run(few, "run", "--job", "--dry-run", "-").out, "is pending and would stay so")
	many := a.run(list, "run", "--job", "-")
	many.ends(t, terminal.ExitUsage, "this would run 1001 jobs, which are more than 1000; give --yes")
	testkit.Equal(t, len(strings.Fields(a.do("jobs", "--type", "late", "--status", "deferred", "--ids"))), 998)
	a.run("", "run").ends(t, terminal.ExitUsage, "run requires the ids of jobs")
}

// TestListsOfBatches: batches lists a hundred, or as many as --limit allows, and prints that there are more. jobs
// --batch lists the jobs of one batch. A filter without a value is refused, since the variable of a script may be
// empty.
func TestListsOfBatches(t *testing.T) {
	a := startAsked(t)
	for i := range 101 {
		a.run("x\ny\n", "submit", "--type", fmt.Sprint("t", i))
	}
	for limit, want := range map[string]int{"": 100, "100": 100, "101": 101, "0": 101, "7": 7} {
		args := []string{"batches", "--limit", limit}
		if limit == "" {
			args = args[:1]
		}
		r := a.run("", args...)
		rows := strings.Count(r.out, "in_progress")
		json := a.run("", append(args, "--json")...)
		more := ""
		if want < 101 {
			more = fmt.Sprintf("there are more than %d batches; --limit 0 lists all\n", want)
		}
		testkit.Holds(t, rows == want && strings.Count(json.out, "\n") == want && r.errs == more &&
			json.errs == more, "--limit", limit, rows, "rows", strings.Count(json.out, "\n"), "documents", r.errs, json.errs)
	}
	one := uuids.FindString(a.do("batches", "--type", "t7"))
	testkit.Equal(t, len(strings.Fields(a.do("jobs", "--batch", one, "--status", "pending", "--ids"))), 2, "jobs of batch", one)
	testkit.Contains(t, a.do("jobs", "--batch", one, "--status", "failed"), "there are no such jobs")
	for _, verb := range []string{"jobs --batch", "jobs --client", "jobs --claim", "batches --name"} {
		words := append(strings.Fields(verb), "")
		a.run("", words...).ends(t, terminal.ExitUsage, words[1]+" has no value")
	}
	for _, flag := range []string{"--batch", "--claim"} {
		a.run("", "jobs", flag, "zzz").ends(t, terminal.ExitUsage, `"zzz" is not an id`)
	}
}

// TestBulkVerbs: changes of many jobs are announced, confirmed, and done.
func TestBulkVerbs(t *testing.T) {
	a := startAsked(t)
	var lines strings.Builder
	for i := range 1500 {
		fmt.Fprintln(&lines, i)
	}
	batch := strings.TrimSpace(a.run(lines.String(), "submit", "--type", "many").out)
	testkit.Contains(t, a.do("cancel", "--batch", batch, "--dry-run"), "would cancel 1500 jobs of the batch "+batch+": 1500 pending")
	r := a.run("", "cancel", "--queue", "default/many")
	r.ends(t, terminal.ExitUsage) // 1500 jobs without --yes
	testkit.Contains(t, r.errs, "1500 jobs", "--yes")
	testkit.Contains(t, a.do("get", "--batch", batch), "in_progress")
	testkit.Contains(t, a.do("cancel", "--queue", "default/many", "--yes"), "cancelled 1500 jobs of the queue default/many")
	testkit.Contains(t, a.do("rm", "--queue", "default/many", "--status", "cancelled", "-y", "--json"), `"moved":1500`, `"done":true`)
	a.run("", "cancel", "--queue", "default/many", "--status", "completed").ends(t, terminal.ExitUsage) // cancel of completed jobs
	a.run("", "cancel", sampleID, "--queue", "default/many").ends(t, terminal.ExitUsage)                // cancel of an id and a queue

	r = a.run(strings.Repeat(sampleID+"\n", 1500), "cancel", "-")
	r.ends(t, terminal.ExitUsage, "this would cancel 1500 jobs, which are more than 1000") // 1500 ids without --yes

	var ids []string
	for range 3 {
		ids = append(ids, a.do("create", "--type", "few", "x"))
	}
	list := a.do("jobs", "--type", "few", "--ids")
	testkit.EqualSlices(t, strings.Fields(list), ids, "jobs --ids")
	r = a.run(list+"\n"+sampleID+"\n", "cancel", "-")
	r.ends(t, terminal.ExitNotFound) // cancel of three jobs and one that does not exist
	testkit.Contains(t, r.out, ids[0]+" cancelled", ids[1]+" cancelled", ids[2]+" cancelled")
	testkit.Contains(t, r.errs, sampleID, "1 of 4 jobs were not cancelled")
	testkit.Contains(t, a.do("redrive", ids[0], "--dry-run"), "is cancelled and would be redriven")
	testkit.Contains(t, a.do("jobs", "--type", "few", "--limit", "2", "--ids"), ids[0])
}

// TestIDsOfBatches: get and resume accept the id of a batch where it cannot mean anything else.
func TestIDsOfBatches(t *testing.T) {
	a := startAsked(t)
	batch := strings.TrimSpace(a.run("x\n", "submit", "--type", "sub", "--name", "nightly", "--paused").out)
	testkit.Contains(t, a.do("get", batch), "nightly", "paused")
	testkit.Equal(t, a.do("resume", batch), batch+" in_progress")
	r := a.run("", "get", sampleID)
	r.ends(t, terminal.ExitNotFound, "job")
	for _, args := range [][]string{{"get", "xyz"}, {"logs", "xyz"}, {"results", "xyz"}, {"cancel", "xyz"}} {
		r := a.run("", args...)
		r.ends(t, terminal.ExitUsage, `"xyz" is not an id: ids have 36 characters`)
	}
	a.run("", "resume", "xyz").ends(t, terminal.ExitUsage, "neither a queue, like acme/resize, nor the id of a batch")
}

// TestCompletionOfManyNames: completion finds a typed name on any page of names.
func TestCompletionOfManyNames(t *testing.T) {
	a := startAsked(t)
	ctx := t.Context()
	c := client.New(a.s.url, client.Options{})
	var jobs []client.NewJob
	for i := range 1200 {
		jobs = append(jobs, client.NewJob{Client: "many", Type: fmt.Sprintf("q%04d", i), Payload: []byte("x")})
	}
	var last string
	for part := range slices.Chunk(jobs, 400) {
		created := testkit.Must(c.CreateMany(ctx, part, client.CreateOptions{}))(t)
		last = created.LastID
	}
	for _, words := range [][]string{{"pause", "many/q1199"}, {"jobs", "--type", "q1199"}, {"cancel", "--queue", "many/q119"}, {"get", last[:len(last)-1]}, {"watch", last}} {
		found := execute(t, "", append([]string{"__complete", words[0], "--server", a.s.url}, words[1:]...)...).out
		want := words[len(words)-1]
		testkit.Holds(t, strings.Contains(found, "\n"+want) || strings.HasPrefix(found, want), words, found)
	}
	testkit.Lacks(t, execute(t, "", "__complete", "pause", "--server", a.s.url, "none/").out, "many")
}

// TestContexts: the server to which a command sends its requests.
func TestContexts(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	a := startAsked(t)
	a.do("create", "--client", "here", "x")
	testkit.Equal(t, ok(t, "context", "add", "nowhere", "127.0.0.1:1"), "commands use 127.0.0.1:1, the context nowhere\n", "the first add")
	got := ok(t, "context", "add", "here", strings.Replace(a.s.url, "http://", "http://user:secret@", 1))
	testkit.Holds(t, got == "commands use 127.0.0.1:1, the context nowhere\n", "the second add", got)
	list := ok(t, "context", "list")
	testkit.Contains(t, list, "*  nowhere", "here")
	testkit.Lacks(t, list, "secret")
	reaches := func(want bool, args ...string) {
		t.Helper()
		r := execute(t, "", append([]string{"queues"}, args...)...)
		got := r.code == terminal.ExitOK && strings.Contains(r.out, "here")
		testkit.Holds(t, got == want && (want || r.code == terminal.ExitNoAnswer), "queues", args, r)
	}
	reaches(false)
	reaches(true, "--context", "here")
	reaches(true, "--server", a.s.url)
	t.Setenv("DAYBOOK_CONTEXT", "here")
	reaches(true)
	reaches(false, "--context", "nowhere")
	t.Setenv("DAYBOOK_SERVER", a.s.url)
	execute(t, "", "queues").ends(t, terminal.ExitUsage)
	t.Setenv("DAYBOOK_CONTEXT", "")
	reaches(true)
	reaches(false, "--context", "nowhere")
	t.Setenv("DAYBOOK_SERVER", "")
	got = ok(t, "context", "use", "here")
	testkit.Holds(t, strings.HasSuffix(got, ", the context here\n") && !strings.Contains(got, "secret"), "use", got)
	reaches(true)
	for _, args := range [][]string{{"--context", "none"}, {"--context", "here", "--server", a.s.url}} {
		execute(t, "", append([]string{"queues"}, args...)...).ends(t, terminal.ExitUsage).lacks(t, "secret")
	}
	testkit.Equal(t, ok(t, "context", "rm", "here"), "commands use "+config.DefaultServer+", since no context is in use\n")
	testkit.Contains(t, ok(t, "context", "list"), "nowhere")
	for _, args := range [][]string{{"add", "a b", "127.0.0.1:1"}, {"add", "x", "ftp://y"}, {"add", "x", "http://"}, {"add", "x", ""}, {"use", "none"}, {"rm", "none"}} {
		execute(t, "", append([]string{"context"}, args...)...).ends(t, terminal.ExitUsage)
	}
}

// TestCompletion: a shell completes the names that the server has, and nothing if it does not answer.
func TestCompletion(t *testing.T) {
	a := startAsked(t)
	id := a.do("create", "--client", "acme", "--type", "resize", "x")
	batch := strings.TrimSpace(a.run("x\n", "submit", "--type", "sub", "--name", "nightly").out)
	for _, args := range [][]string{{"stored"}, {"own", "--client", "acme"}} {
		r := a.run("handle() { cat; }", append([]string{"handler", "put", "--lang", "sh", args[0], "-"}, args[1:]...)...)
		testkit.MustEqual(t, r.code, terminal.ExitOK, args, r)
	}
	t.Setenv("DAYBOOK_SERVER", a.s.url)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"pause", ""}, "acme/resize\n"},
		{[]string{"cancel", ""}, id},
		{[]string{"results", ""}, batch},
		{[]string{"get", "--batch", ""}, batch},
		{[]string{"jobs", "--client", ""}, "acme\n"},
		{[]string{"handler", "get", ""}, "stored\tscript\n"},
		{[]string{"handler", "rm", ""}, "stored\tscript\n"},
		{[]string{"handler", "history", "--client", "acme", ""}, "own\tscript\n"},
		{[]string{"jobs", "--type", ""}, "resize\n"},
		{[]string{"jobs", "--status", ""}, "deferred\n"},
	} {
		r := execute(t, "", append([]string{"__complete"}, c.args...)...)
		r.ends(t, terminal.ExitOK).prints(t, c.want)
	}
	r := execute(t, "", "__complete", "pause", "--server", "127.0.0.1:1", "")
	r.ends(t, terminal.ExitOK).lacks(t, "acme") // completion without a server
}

// TestRunnerStates: a runner that ended in order is not shown as dead.
func TestRunnerStates(t *testing.T) {
	for want, r := range map[string]client.Runner{
		"ALIVE": {State: client.RunnerAlive}, "ENDED": {State: client.RunnerDead, End: client.RunnerLeft},
		"LOST": {State: client.RunnerDead, End: client.RunnerLost}, "-": {}, "DEAD": {State: client.RunnerDead},
	} {
		testkit.Equal(t, runnerState(&r), want)
	}
	a := startAsked(t)
	c := client.New(a.s.url, client.Options{})
	for _, id := range []string{"mixer-1", "mixer-2"} {
		testkit.Must(c.Heartbeat(t.Context(), client.RunnerInfo{ID: id, Instance: "i"}))(t)
	}
	testkit.NoError(t, c.Goodbye(t.Context(), "mixer-1", "i"))
	testkit.Contains(t, strings.Join(strings.Fields(a.do("runners")), " "), "mixer-1 ENDED 0", "mixer-2 ALIVE 0")
}

// TestTimeFlag: the forms in which a time can be given.
func TestTimeFlag(t *testing.T) {
	zone := time.FixedZone("", 3600)
	was := terminal.Now
	terminal.Now = func() time.Time { return time.Date(2026, 12, 23, 10, 30, 0, 0, zone) }
	defer func() { terminal.Now = was }()
	for text, want := range map[string]time.Time{
		"1795457645262":             time.UnixMilli(1795457645262),
		"2026-12-24T18:00:00Z":      time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC),
		"2026-12-24T18:00:00+02:00": time.Date(2026, 12, 24, 16, 0, 0, 0, time.UTC),
		"2026-12-24 18:00":          time.Date(2026, 12, 24, 18, 0, 0, 0, zone),
		"2026-12-24":                time.Date(2026, 12, 24, 0, 0, 0, 0, zone),
		"today":                     time.Date(2026, 12, 23, 0, 0, 0, 0, zone),
		"tomorrow 08:15":            time.Date(2026, 12, 24, 8, 15, 0, 0, zone),
	} {
		var f terminal.TimeFlag
		err := f.Set(text)
		testkit.Holds(t, err == nil && int64(f) == want.UnixMilli(), text, &f, err, "want", want)
	}
	for _, text := range []string{"", "0", "-1", "noon", "tomorrow8:15", "2026-13-01", "tomorrow 25:00", "yesterday"} {
		var f terminal.TimeFlag
		testkit.Holds(t, f.Set(text) != nil, text, "is accepted as", &f)
	}
}

// TestTimesOfJobs: a time that is more than a day ago is refused, and deferred jobs are listed with their times.
func TestTimesOfJobs(t *testing.T) {
	a := startAsked(t)
	seconds := time.Now().Add(time.Hour).Unix()
	for _, flag := range []string{"--run-at", "--expires-at"} {
		for _, verb := range []string{"create", "add"} {
			r := a.run("p\n", verb, flag, fmt.Sprint(seconds))
			r.ends(t, terminal.ExitUsage)
			testkit.Contains(t, r.errs, flag+" is 1970-01-", "more than a day ago", fmt.Sprintf("give milliseconds: %d000", seconds))
		}
		r := a.run("", "create", flag, "2001-02-03 04:05", "p")
		r.ends(t, terminal.ExitUsage).lacks(t, "milliseconds")
		testkit.Contains(t, r.errs, flag+" is 2001-02-03 04:05:00", "more than a day ago")
	}
	testkit.Contains(t, a.do("jobs"), "there are no such jobs")

	resumed := []string{"add", "--resume", writeFile(t, t.TempDir(), "state", "not a state"), "--run-at", "2001-02-03"}
	testkit.Lacks(t, a.run("p\n", resumed...).errs, "more than a day ago") // an add that goes on

	a.do("create", "--run-at", time.Now().Add(-23*time.Hour).Format(time.RFC3339), "--type", "late", "p")
	a.do("create", "--run-at", "2100-02-03 04:05", "--type", "due", "p")
	testkit.Equal(t, strings.Fields(a.do("jobs", "--type", "late"))[5], "RUNNER")
	testkit.Contains(t, a.do("jobs", "--status", "deferred"), "CREATED", "RUN AT", "2100-02-03 04:05:00.000")
	lines := strings.Split(a.do("jobs"), "\n")
	testkit.Holds(t, len(lines) == 3 && strings.Contains(lines[0], "RUN AT") && !strings.Contains(lines[1], "2100"), lines)
	a.run("1\n", "submit", "--paused", "--type", "held")
	testkit.Contains(t, a.do("jobs", "--type", "held"), "batch paused")
}

// TestTable: columns are aligned by their width on a terminal, and a cell cannot change the terminal.
func TestTable(t *testing.T) {
	var out strings.Builder
	err := terminal.Table(&out, func(row func(...any)) {
		row("NAME", "STATUS", "")
		row("äö", "failed", "x")
		row("日本", "completed", "")
		row("a\x1b[31m", 1, "y")
	})
	want := "NAME         STATUS\n" +
		"äö           failed     x\n" +
		"日本         completed\n" +
		`"a\x1b[31m"  1          y` + "\n"
	testkit.NoError(t, err)
	testkit.Equal(t, out.String(), want)
	testkit.Equal(t, terminal.InColour("failed"), "\x1b[31mfailed\x1b[0m", "colours of statuses")
	testkit.Equal(t, terminal.InColour("other"), "other")
}
