package main

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestIDOfABatch: each command that changes jobs refuses an id that a batch shares with its first job, as an argument
// and on standard input, and changes nothing; --job and --batch select one of the two.
func TestIDOfABatch(t *testing.T) {
	a := startAsked(t)
	id := strings.TrimSpace(a.run("1\n2\n3\n", "add", "--type", "amb").out)
	one := strings.TrimSpace(a.run("1\n", "add", "--type", "one").out) // a batch of one job
	submitted := strings.TrimSpace(a.run("1\n", "submit", "--type", "sub").out)
	pending := func(of string, want int) {
		t.Helper()
		testkit.Equal(t, len(strings.Fields(a.do("jobs", "--type", of, "--status", "pending", "--ids"))), want, of)
	}
	for _, verb := range []string{"cancel", "redrive", "rm", "remove", "run", "tickle", "complete", "release"} {
		r := a.run("", verb, id)
		testkit.Equal(t, r.ends(t, terminal.ExitUsage).out, "")
		testkit.Contains(t, r.errs, "nothing was changed: "+id+" is the id of a batch of 3 jobs and of its first job", "--job means the first job only")
		r = a.run("", verb, submitted)
		testkit.Equal(t, r.ends(t, terminal.ExitUsage).out, "")
		testkit.Contains(t, r.errs, submitted+" is the id of a batch of 1 job, and of no job")
	}
	for _, verb := range []string{"cancel", "redrive", "rm"} {
		testkit.Contains(t, a.run("", verb, id).errs, "--batch "+id+" means the batch")
		testkit.Contains(t, a.run("", verb, submitted).errs, "--batch "+submitted+" means the batch")
		testkit.Contains(t, a.run("", verb, "--dry-run", id).errs, "is the id of a batch")
	}
	for _, verb := range []string{"cancel", "redrive", "rm", "run"} {
		for _, list := range []string{id + "\n", one + "\n" + id + " pending\n"} {
			if r := a.run(list, verb, "-"); r.code != terminal.ExitUsage || r.out != "" || !strings.Contains(r.errs, "is the id of a batch of 3 jobs") {
				t.Errorf("%s of %q: %+v", verb, list, r)
			}
		}
		a.run("", verb, "--job").ends(t, terminal.ExitUsage)
	}
	pending("amb", 3)
	pending("one", 1)
	pending("sub", 1)

	r := a.run("", "get", id)
	testkit.Equal(t, r.code, terminal.ExitOK)
	testkit.Equal(t, r.errs, id+" is job 1 of 3 of the batch with this id; --batch shows the batch\n")
	testkit.Contains(t, r.out, "job_id", "pending")
	for _, args := range [][]string{{"get", "--job", id}, {"get", "--batch", id}, {"get", one}, {"get", submitted}} {
		r := a.run("", args...)
		testkit.Holds(t, r.code == terminal.ExitOK && r.errs == "", args, r)
	}
	a.run("", "get", "--job", submitted).ends(t, terminal.ExitNotFound)

	testkit.Contains(t, a.do("cancel", one), one+" cancelled")
	testkit.Contains(t, a.do("redrive", one), one+" pending")
	testkit.Contains(t, a.do("cancel", "--job", id), id+" cancelled")
	pending("amb", 2)
	a.run(id+"\n", "redrive", "--job", "-").ends(t, terminal.ExitOK)
	pending("amb", 3)
	claim := uuids.FindString(a.do("claim", "--type", "amb", "--max", "3"))
	testkit.Contains(t, a.do("tickle", id, "--claim", claim), "active") // a claim holds only jobs
	testkit.Contains(t, a.do("tickle", id, "--job"), "active")
	testkit.Contains(t, a.do("release", id, "--claim", claim), "pending")
	a.do("claim", "--type", "amb", "--max", "3")
	testkit.Contains(t, a.do("complete", id, "--job"), "completed")
	testkit.Contains(t, a.do("rm", "--batch", id), "removed 3 jobs")
	testkit.Contains(t, a.do("rm", "--batch", submitted), "removed 1 job")
}
