package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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

// parsed writes the text to a file, and reads that.
func parsed(t *testing.T, text string) results {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := results{}
	if err := r.read(f, path); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestJudge: the outcome of a first measurement, or of two.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second string // of the working tree; "": there is no second measurement
		want          string // the slower benchmarks
		prints        string
	}{
		{name: "the same", first: output("head", 1, 1, 0.058), prints: "nothing is slower"},
		{name: "10 % more processor time", first: output("head", 1.1, 1, 0.058), second: output("again", 1.1, 1, 0.058), want: "processor time per job +10."},
		{name: "10 % less processor time", first: output("head", 0.9, 1, 0.058), prints: "nothing is slower"},
		{name: "3 % more processor time", first: output("head", 1.03, 1, 0.058), prints: "nothing is slower"},
		{name: "20 % more wall time, as if it waited", first: output("head", 1, 1.2, 0.058), second: output("again", 1, 1.2, 0.058), want: "wall time per job +"},
		{name: "10 % more only in the first measurement", first: output("head", 1.1, 1, 0.058), second: output("again", 1, 1, 0.058), prints: "nothing is slower in the second measurement"},
		{name: "another figure in the second measurement", first: output("head", 1.1, 1, 0.058), second: output("again", 1, 1.2, 0.058), prints: "nothing is slower in the second measurement"},
		{name: "twice the allocations", first: output("head", 1, 1, 0.116), prints: "more, which does not decide: store Store/"},
		{name: "a run less", first: strings.Replace(output("head", 1, 1, 1), create, "goarch: amd64", 1), want: "16 values of cpu-sec/job at the base, and 15 here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, first := parsed(t, output("base", 1, 1, 0.058)), parsed(t, c.first)
			all, _, _ := split(base, first)
			var stages []string
			var printed bytes.Buffer
			err := options{base: "abc"}.judge(&printed, all, func(stage string, list []benchmark) (results, results, error) {
				if stages = append(stages, stage); !slices.Equal(list, all) {
					t.Errorf("%s measures %v, want %v", stage, list, all)
				}
				if stage == "again" {
					return base, parsed(t, c.second), nil
				}
				return base, first, nil
			})
			switch {
			case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the outcome is %v, want %q\n%s", err, c.want, &printed)
			case errors.Is(err, errSlower) && !strings.Contains(err.Error(), "than abc by 5 % or more, in two measurements:\nstore Store/backlog=0/"):
				t.Errorf("the outcome is %v", err)
			}
			if !strings.Contains(printed.String(), c.prints) {
				t.Errorf("%q was not printed:\n%s", c.prints, &printed)
			}
			if again := len(stages) == 2; again != (c.second != "") {
				t.Errorf("stages %v", stages)
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
		if growth, p := paired(base, c.head); math.Abs(growth-c.growth) > 0.001 || math.Abs(p-c.p) > 1e-9 {
			t.Errorf("%v: growth %.4f, p %.6f; want %.3f, %.6f", c.head, growth, p, c.growth, c.p)
		}
	}
}

// TestSplit: benchmarks of only one side are not compared, and the pattern of a benchmark matches only this benchmark.
func TestSplit(t *testing.T) {
	a, b, c := benchmark{"x/store", "Store/work=a/batch=1-2"}, benchmark{"x/store", "Store/work=b-2"}, benchmark{"x/ingest", "Ingest-2"}
	some := map[string][]float64{"sec/job": {1}}
	both, onlyBase, onlyHead := split(results{a: some, b: some}, results{a: some, c: some})
	if !slices.Equal(both, []benchmark{a}) || !slices.Equal(onlyBase, []benchmark{b}) || !slices.Equal(onlyHead, []benchmark{c}) {
		t.Errorf("on both sides %v, at the base %v, here %v", both, onlyBase, onlyHead)
	}
	if pattern := a.pattern(); pattern != "^BenchmarkStore$/^work=a$/^batch=1$" {
		t.Errorf("the pattern of %s is %s", a, pattern)
	}
}

// TestBrokenResults: a line that is cut off is an error. It must not drop a benchmark silently.
func TestBrokenResults(t *testing.T) {
	if err := (results{}).read(strings.NewReader("BenchmarkStore/x-2 \t 36\t 0.05\n"), "r.txt"); err == nil || !strings.Contains(err.Error(), "r.txt:1") {
		t.Errorf("a broken line: %v", err)
	}
}

// TestRefusals: the cases that cannot be compared, and the reasons.
func TestRefusals(t *testing.T) {
	repository := commits(t)
	for _, c := range []struct {
		o    options
		want string
	}{
		{options{rounds: 8}, "no commit was named"},
		{options{base: "HEAD", rounds: 5}, "5 rounds are too few"},
		{options{base: "no-such-commit", rounds: 8}, `"no-such-commit" is no commit of`},
		{options{base: "HEAD", rounds: 8}, "build the server of the base"}, // the repository is not a Go module
	} {
		c.o.head, c.o.out = repository, t.TempDir()
		if err := c.o.run(t.Context(), t.Output(), t.Output()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	if list := git(t, repository, "worktree", "list"); strings.Count(list, "\n") != 1 {
		t.Errorf("worktrees are left:\n%s", list)
	}
}

// TestWorktreeIsRemoved: the worktree is removed, even if the comparison was interrupted, or if its folder was already
// deleted.
func TestWorktreeIsRemoved(t *testing.T) {
	repository := commits(t)
	for _, name := range []string{"unharmed", "deleted"} {
		ctx, interrupt := context.WithCancel(t.Context())
		dir := filepath.Join(t.TempDir(), "tree")
		remove, err := checkOut(ctx, repository, "HEAD", dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
			t.Error(err)
		}
		if name == "deleted" {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		interrupt()
		if err := remove(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if list := git(t, repository, "worktree", "list"); strings.Count(list, "\n") != 1 {
			t.Errorf("%s: worktrees are left:\n%s", name, list)
		}
	}
}

// TestTakeInstrument: the base is measured by the working tree's package matrix, unless the base is older than the
// package.
func TestTakeInstrument(t *testing.T) {
	write := func(dir string, files ...string) tree {
		for _, name := range files {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(dir), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return tree{dir: dir}
	}
	head := write(t.TempDir(), instrument+"/measure.go", parts[0]+"/own.go")
	for _, c := range []struct{ before, want []string }{
		{[]string{instrument + "/measure.go", instrument + "/removed.go"}, []string{"measure.go"}},
		{nil, nil},
	} {
		base := write(t.TempDir(), c.before...)
		if err := base.takeInstrument(head); err != nil {
			t.Fatal(err)
		}
		var got []string
		files, _ := os.ReadDir(filepath.Join(base.dir, instrument))
		for _, f := range files {
			got = append(got, f.Name())
			if content, err := os.ReadFile(filepath.Join(base.dir, instrument, f.Name())); err != nil || string(content) != head.dir {
				t.Errorf("%s is of %q, %v", f.Name(), content, err)
			}
		}
		if content, err := os.ReadFile(filepath.Join(base.dir, parts[0], "own.go")); (err == nil) != (c.want != nil) || err == nil && string(content) != head.dir {
			t.Errorf("before: %q, %s/own.go is of %q, %v", c.before, parts[0], content, err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("before: %q, after: %q, want %q", c.before, got, c.want)
		}
	}
}

// TestPartsOfTheInstrument: parts has all internal packages that package matrix needs, so that it compiles in the tree of the
// base.
func TestPartsOfTheInstrument(t *testing.T) {
	const module = "github.com/daybookq/daybook/"
	needed := map[string]bool{}
	for todo := []string{instrument}; len(todo) > 0; todo = todo[1:] {
		files, err := filepath.Glob(filepath.Join("../..", todo[0], "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("files of %s: %d, %v", todo[0], len(files), err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imported := range file.Imports {
				folder, ours := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), module)
				if ours && strings.HasPrefix(folder, "internal/") && !strings.HasSuffix(name, "_test.go") && !needed[folder] {
					needed[folder] = true
					todo = append(todo, folder)
				}
			}
		}
	}
	if got := slices.Sorted(maps.Keys(needed)); !slices.Equal(got, parts) {
		t.Errorf("package matrix needs %q, parts has %q", got, parts)
	}
}

// commits makes a git repository with a commit.
func commits(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "--quiet")
	git(t, dir, "add", "file")
	git(t, dir, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "-m", "test")
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := run(t.Context(), dir, nil, "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestDiffer: identical binaries are not measured. The benchmarks of processes are measured if the servers differ.
func TestDiffer(t *testing.T) {
	build := func(name string, contents map[string]string) tree {
		made := tree{name: name, bin: t.TempDir()}
		for _, file := range append([]string{made.server()}, made.test("journal"), made.test("store"), made.test("ingest"), made.test("bench")) {
			if err := os.WriteFile(file, []byte(contents[filepath.Base(file)]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return made
	}
	base := build("base", nil)
	for _, c := range []struct {
		differs string
		want    []string
	}{{"", nil}, {"store.test", []string{"store"}}, {"daybook", []string{"bench"}}, {"bench.test", []string{"bench"}}} {
		got, err := differ(base, build("head", map[string]string{c.differs: "x"}))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q differs: %v, %v; want %v", c.differs, got, err, c.want)
		}
	}
}
