package program

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/daybookq/daybook/runner/task"
)

// inherited are the variables that a program gets from the runner's environment, which may have secrets. The second text
// is for a runner without the variable.
var inherited = [][2]string{{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, {"HOME", ""}, {"LANG", ""}, {"TMPDIR", "/tmp"}}

// environment returns the environment that all runs of a handler have.
func environment(set map[string]string) []string {
	variables := map[string]string{}
	for _, v := range inherited {
		if value := cmp.Or(os.Getenv(v[0]), v[1]); value != "" {
			variables[v[0]] = value
		}
	}
	maps.Copy(variables, set)
	env := make([]string, 0, len(variables)+6)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		env = append(env, name+"="+variables[name])
	}
	return env
}

// forJob returns the environment of the run of a job.
func forJob(env []string, t *task.Task) []string {
	j := t.Job
	env = append(slices.Clip(env), "DAYBOOK_JOB_ID="+j.ID, "DAYBOOK_CLIENT="+j.Client, "DAYBOOK_TYPE="+j.Type, "DAYBOOK_ATTEMPT="+strconv.Itoa(j.RunAttempts))
	if j.Traceparent != "" {
		env = append(env, "TRACEPARENT="+j.Traceparent)
	}
	return env
}

// forBatch returns the environment of the run of a batch.
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
