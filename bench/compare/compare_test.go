package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

const create = "BenchmarkStore/backlog=0/queues=1/size=100/work=create/batch=1000-2"

// output is the text of sixteen runs of a benchmark on a busy machine: other work changes the figures by up to a half in
// all runs of a round, and by a few percent in each run. The server that it simulates takes factors times the processor
// time and the wall time, and makes this many allocations.
func output(side string, cpu, wall, allocs float64) string {
	text := "goos: linux\npkg: github.com/daybookq/daybook/store\n"
	random := rand.New(rand.NewPCG(1, uint64(len(side))))
	for i := range 16 {
		busy := 1 + float64(i*5%16)/32
		noise := func() float64 { return busy * (1 + (random.Float64()-0.5)/20) }
		text += fmt.Sprintf("%s \t 36\t %g allocs/job\t 101.2 bytes/job\t %g cpu-ns/job\t 0 fsyncs/job\t 5745481 jobs/s\t %g ns/job\t 6019 p50-ns\n",
			create, allocs, 205.7*cpu*noise(), 174*wall*noise())
	}
	return text + "PASS\n"
}

func parsed(t *testing.T, text string) results {
	t.Helper()
	r := results{}
	testkit.NoError(t, r.read(strings.NewReader(text), "results.txt"))
	return r
}

// TestJudge: the outcome of a first measurement, or of two.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second string // of the working tree; "": there is no second measurement
		want          string // a part of the error
	}{
		{"the same", output("head", 1, 1, 0.058), "", ""},
		{"10 % more processor time", output("head", 1.1, 1, 0.058), output("again", 1.1, 1, 0.058), "by 5 % or more, in two measurements:\nstore Store/backlog=0/queues=1/size=100/work=create/batch=1000-2: processor time per job +10."},
		{"10 % less processor time", output("head", 0.9, 1, 0.058), "", ""},
		{"3 % more processor time", output("head", 1.03, 1, 0.058), "", ""},
		{"20 % more wall time, as if it waited", output("head", 1, 1.2, 0.058), output("again", 1, 1.2, 0.058), "wall time per job +"},
		{"10 % more only in the first measurement", output("head", 1.1, 1, 0.058), output("again", 1, 1, 0.058), ""},
		{"another figure in the second measurement", output("head", 1.1, 1, 0.058), output("again", 1, 1.2, 0.058), ""},
		{"twice the allocations", output("head", 1, 1, 0.116), "", ""},
		{"a run less", strings.Replace(output("head", 1, 1, 1), create, "goarch: amd64", 1), "", "16 values of "},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := parsed(t, output("base", 1, 1, 0.058))
			of := map[string]string{"all": c.first, "again": c.second}
			stages := 0
			err := (&comparison{base: "abc", w: t.Output()}).judge(base.in(base, true), func(stage string, list []benchmark) ([2]results, error) {
				stages++
				testkit.Equal(t, len(list), 1, stage, "measures", list)
				return [2]results{base, parsed(t, of[stage])}, nil
			})
			testkit.Holds(t, (c.want != "" || err == nil) &&
				(c.want == "" || err != nil && strings.Contains(err.Error(), c.want)), "the outcome is", err, "want", c.want)
			if again := stages == 2; again != (c.second != "") || again && c.want != "" && !errors.Is(err, errSlower) {
				t.Errorf("after %d measurements the outcome is %v", stages, err)
			}
		})
	}
}

// TestPaired compares the test of pairs with a table of Wilcoxon's test, and with counts by hand.
func TestPaired(t *testing.T) {
	for _, c := range []struct {
		head      []float64 // the base's values are all 1
		growth, p float64
	}{
		{[]float64{1, 1, 1, 1, 1, 1}, 0, 1},
		{[]float64{1.1, 1.2, 1.3, 1.4, 1.5, 1.6}, 0.349, 2.0 / 64},           // all signs alike
		{[]float64{0.9, 1.2, 1.3, 1.4, 1.5, 1.6}, 0.349, 4.0 / 64},           // the smallest growth has another sign
		{[]float64{1.2, 1.2, 1 / 1.2, 1 / 1.2}, 0, 1},                        // equal ranks
		{[]float64{1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6}, 0.3, 2.0 / 64},          // a value that did not change does not count
		{[]float64{1 / 1.1, 1 / 1.2, 1 / 1.3, 1 / 1.4, 1.01}, -0.167, 0.125}, // W = 1, n = 5
	} {
		base := slices.Repeat([]float64{1}, len(c.head))
		growth, p := paired(base, c.head)
		testkit.Holds(t, math.Abs(growth-c.growth) <= 0.001 && math.Abs(p-c.p) <= 1e-9, c.head, "growth", growth, "p", p, "want", c.growth, c.p)
	}
}

// TestIn: benchmarks of only one side are not compared, and the pattern of a benchmark matches only this benchmark.
func TestIn(t *testing.T) {
	a, b, c := benchmark{"store", "Store/work=a/batch=1-2"}, benchmark{"store", "Store/work=b-2"}, benchmark{"ingest", "Ingest-2"}
	some := map[string][]float64{"sec/job": {1}}
	base, head := results{a: some, b: some}, results{a: some, c: some}
	both, onlyBase, onlyHead := base.in(head, true), base.in(head, false), head.in(base, false)
	testkit.Holds(t, slices.Equal(both, []benchmark{a}) && slices.Equal(onlyBase, []benchmark{b}) && slices.Equal(onlyHead, []benchmark{c}),
		"on both sides", both, "at the base", onlyBase, "here", onlyHead)
	testkit.Equal(t, a.pattern(), "^BenchmarkStore$/^work=a$/^batch=1$", "the pattern of", a)
}

// TestTable: benchstat compares the two files.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	for side, cpu := range map[string]float64{"base": 1, "head": 1.3} {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, side), []byte(output(side, cpu, 1, 0.058)), 0o644))
	}
	var printed bytes.Buffer
	testkit.NoError(t, (&comparison{w: &printed}).table(t.Context(), filepath.Join(dir, "base"), filepath.Join(dir, "head")))
	for _, want := range []string{"cpu-sec/job", "allocs/job", "(p=0.000 n=16)", strings.TrimPrefix(create, "Benchmark")} {
		testkit.Contains(t, printed.String(), want)
	}
}

// TestBrokenResults: a line that is cut off is an error. It must not drop a benchmark silently.
func TestBrokenResults(t *testing.T) {
	testkit.Failed(t, (results{}).read(strings.NewReader("BenchmarkStore/x-2 \t 36\t 0.05\n"), "r.txt"), "r.txt:1") // a broken line
}

// TestRefusals: the cases that cannot be compared, and the reasons.
func TestRefusals(t *testing.T) {
	repository := commits(t)
	for _, c := range []struct {
		comparison
		want string
	}{
		{comparison{rounds: 8}, "no commit was named"},
		{comparison{base: "HEAD", rounds: 5}, "5 rounds are too few"},
		{comparison{base: "no-such-commit", rounds: 8}, `"no-such-commit" is no commit of`},
		{comparison{base: "HEAD", rounds: 8}, "build the server of the base"}, // the repository is not a Go module
	} {
		c.head, c.out, c.w, c.progress = repository, t.TempDir(), t.Output(), t.Output()
		err := c.run(t.Context())
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), c.want), c.comparison, err, "want", c.want)
	}
	onlyOne(t, repository)
}

// onlyOne checks that a repository has one worktree, itself.
func onlyOne(t *testing.T, repository string) {
	t.Helper()
	testkit.Equal(t, strings.Count(git(t, repository, "worktree", "list"), "\n"), 1)
}

// TestWorktreeIsRemoved: the worktree is removed, even if the comparison was interrupted, or if its folder was already
// deleted.
func TestWorktreeIsRemoved(t *testing.T) {
	repository := commits(t)
	for _, deleted := range []bool{false, true} {
		ctx, interrupt := context.WithCancel(t.Context())
		dir := filepath.Join(t.TempDir(), "tree")
		remove, err := checkOut(ctx, repository, "HEAD", dir)
		testkit.NoError(t, err)
		testkit.Must(os.Stat(filepath.Join(dir, "file")))(t)
		if deleted {
			err = os.RemoveAll(dir)
		}
		interrupt()
		testkit.Check(t, errors.Join(err, remove()), "deleted", deleted)
		onlyOne(t, repository)
	}
}

// commits makes a git repository with a commit.
func commits(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	git(t, dir, "init", "--quiet")
	git(t, dir, "add", "file")
	git(t, dir, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "-m", "test")
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out := testkit.Must(run(t.Context(), dir, nil, "git", args...))(t)
	return string(out)
}
