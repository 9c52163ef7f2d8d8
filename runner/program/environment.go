package program

import (
	"cmp"
	"os"
	"slices"
	"strconv"

	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
)

// environment returns the environment of all runs of a handler. The runner's environment may contain secrets, so only
// its PATH, HOME, LANG and TMPDIR are passed on.
func environment(g *sandbox.Grants) []string {
	inherited := map[string]string{"PATH": sandbox.Path(), "TMPDIR": cmp.Or(os.Getenv("TMPDIR"), "/tmp")}
	for _, name := range []string{"HOME", "LANG"} {
		if value := os.Getenv(name); value != "" {
			inherited[name] = value
		}
	}
	return g.Environment(inherited)
}

// forJob returns the environment of a job's run.
func forJob(env []string, t *task.Task) []string {
	j := t.Job
	env = append(slices.Clip(env), "DAYBOOK_JOB_ID="+j.ID, "DAYBOOK_CLIENT="+j.Client, "DAYBOOK_TYPE="+j.Type, "DAYBOOK_ATTEMPT="+strconv.Itoa(j.RunAttempts))
	if j.Traceparent != "" {
		env = append(env, "TRACEPARENT="+j.Traceparent)
	}
	return env
}

// forBatch returns the environment of a batch's run.
func forBatch(env []string, tasks []*task.Task) []string {
	env = append(slices.Clip(env), "DAYBOOK_BATCH="+strconv.Itoa(len(tasks)))
	first := tasks[0].Job
	if !slices.ContainsFunc(tasks, func(t *task.Task) bool { return t.Job.Client != first.Client }) {
		env = append(env, "DAYBOOK_CLIENT="+first.Client)
	}
	if !slices.ContainsFunc(tasks, func(t *task.Task) bool { return t.Job.Type != first.Type }) {
		env = append(env, "DAYBOOK_TYPE="+first.Type)
	}
	return env
}
