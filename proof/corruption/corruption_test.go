package corruption

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/report"
)

var (
	full   = flag.Bool("full", false, "run every case; otherwise a sample")
	sample = flag.Int("sample", 1500, "how many cases a sample has")
	only   = flag.String("only", "", "only cases whose name contains this")
)

// maxCase bounds the time of a case. Most take some milliseconds. A case takes this long only if a start or an answer
// never comes.
const maxCase = 5 * time.Minute

// memory returns a directory in memory if the machine has one.
func memory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "daybook-corruption-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// tally counts verdicts by kind of file and kind of damage.
type tally struct {
	mu    sync.Mutex
	cells map[[2]string]map[verdict]int
	said  map[string]int // failures by their text
	done  int

	slowest time.Duration
	slow    string // the slowest case
}

func (y *tally) add(t *testing.T, d *damage, v verdict, detail string, took time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.done++
	if took > y.slowest {
		y.slowest, y.slow = took, d.String()
	}
	cell := [2]string{fileKind(d.file), d.kind}
	if y.cells[cell] == nil {
		y.cells[cell] = map[verdict]int{}
	}
	y.cells[cell][v]++
	if v.bad() {
		kind := fmt.Sprint(v, cell)
		if y.said[kind]++; y.said[kind] <= 3 {
			t.Errorf("%s: %s: %s", v, d, detail[:min(len(detail), 1000)])
		}
	}
}

// TestMatrix makes all damages, and judges the server's next start after each.
func TestMatrix(t *testing.T) {
	dir := memory(t)
	all := testkit.Must(fixtures(dir))(t)
	var cases []damage
	for _, f := range all {
		size := 0
		for _, data := range f.files {
			size += len(data)
		}
		t.Logf("fixture %s: %s; %d files, %d bytes, %d jobs", f.name, f.about, len(f.files), size, len(f.jobs))
		cases = append(cases, f.damages()...)
	}
	cases = withoutRepeats(t, cases)
	if *only != "" {
		cases = slices.DeleteFunc(cases, func(d damage) bool { return !strings.Contains(d.String(), *only) })
	}
	total := len(cases)
	if !*full && *only == "" {
		cases = pick(cases, *sample)
	}
	t.Logf("%d of %d cases", len(cases), total)

	y := &tally{cells: map[[2]string]map[verdict]int{}, said: map[string]int{}}
	began := time.Now()
	var next sync.Mutex
	at := 0
	var workers sync.WaitGroup
	for n := range 4 * runtime.GOMAXPROCS(0) { // a case waits more than it computes
		workers.Go(func() {
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= len(cases) {
					return
				}
				d := &cases[i]
				start := time.Now()
				v, detail := bounded(d, filepath.Join(dir, fmt.Sprintf("case-%d-%d", n, i)), openReal)
				y.add(t, d, v, detail, time.Since(start))
				if *full && i%5000 == 0 {
					fmt.Printf("%d of %d cases, %v\n", i, len(cases), time.Since(began).Round(time.Second))
				}
			}
		})
	}
	workers.Wait()
	text := y.table(all, time.Since(began))
	t.Log("\n" + text)
	if *full {
		report.Write(t, "corruption", text)
	}
}

// withoutRepeats removes cases that an earlier fixture has in the same form: the store of fixture "unproven", and option
// files with the same bytes.
func withoutRepeats(t *testing.T, cases []damage) []damage {
	before := len(cases)
	owner := map[string]*fixture{} // by the bytes of an options file
	cases = slices.DeleteFunc(cases, func(d damage) bool {
		if d.fixture.name == "unproven" {
			return strings.HasPrefix(d.file, "store/")
		}
		if fileKind(d.file) != "store options" {
			return false
		}
		data := string(d.fixture.files[d.file])
		if owner[data] == nil {
			owner[data] = d.fixture
		}
		return owner[data] != d.fixture
	})
	t.Logf("%d cases are left out, since an earlier fixture has the same bytes in the same kind of file", before-len(cases))
	return cases
}

// pick returns about n of the cases: some of the bits and bytes, evenly distributed, and everything else. With -short it
// returns a tenth of them all.
func pick(cases []damage, n int) (picked []damage) {
	var many []damage
	for _, d := range cases {
		if d.kind == "flip a bit" || d.kind == "cut at a byte" {
			many = append(many, d)
		} else {
			picked = append(picked, d)
		}
	}
	for i := range n {
		picked = append(picked, many[i*len(many)/n])
	}
	if testing.Short() {
		for i := range len(picked) / 10 {
			picked[i] = picked[10*i]
		}
		picked = picked[:len(picked)/10]
	}
	return picked
}

// bounded runs a case for up to maxCase.
func bounded(d *damage, dir string, start opener) (verdict, string) {
	type result struct {
		v      verdict
		detail string
	}
	done := make(chan result, 1)
	go func() { v, detail := try(d, dir, start); done <- result{v, detail} }()
	select {
	case r := <-done:
		return r.v, r.detail
	case <-time.After(maxCase):
		return hung, fmt.Sprintf("undecided: no answer within %v, since the machine is too slow or the answer never comes", maxCase)
	}
}

func (y *tally) table(all []*fixture, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cases in %v; the slowest took %v (%s).\n\n", y.done,
		took.Round(time.Second), y.slowest.Round(time.Millisecond), y.slow)
	b.WriteString("| file | damage | cases |")
	for _, v := range verdicts {
		fmt.Fprintf(&b, " %s |", strings.ToLower(string(v)))
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", 1+len(verdicts)) + "\n")
	sums := map[verdict]int{}
	cells := slices.SortedFunc(maps.Keys(y.cells), func(a, b [2]string) int {
		if c := strings.Compare(a[0], b[0]); c != 0 {
			return c
		}
		return slices.Index(kinds, a[1]) - slices.Index(kinds, b[1])
	})
	for _, cell := range cells {
		n := 0
		line := ""
		for _, v := range verdicts {
			n += y.cells[cell][v]
			sums[v] += y.cells[cell][v]
			line += fmt.Sprintf(" %d |", y.cells[cell][v])
		}
		fmt.Fprintf(&b, "| %s | %s | %d |%s\n", cell[0], cell[1], n, line)
	}
	fmt.Fprintf(&b, "| all | | %d |", y.done)
	for _, v := range verdicts {
		fmt.Fprintf(&b, " %d |", sums[v])
	}
	b.WriteString("\n")
	return b.String()
}

// falseServer shows a state that differs from the real server's.
type falseServer struct {
	server
	change func(*state) (*state, error)
}

func (l falseServer) see(f *fixture) (*state, error) {
	s, err := l.server.see(f)
	if err != nil {
		return s, err
	}
	return l.change(s)
}

// TestFixtures: the first fixture has each command of package job in its journal, an open and an ended session, chained
// jobs, and jobs that lost runners held. One runner is lost before the store's last flush, and another runner after it.
func TestFixtures(t *testing.T) {
	all := testkit.Must(fixtures(memory(t)))(t)
	verbs := map[string]bool{}
	lost := 0
	for _, r := range all[0].places {
		verbs[r.verb] = true
		if r.verb == "loserunner" {
			lost++
		}
	}
	unflushed := all[0].places[len(all[0].places)-len(all[0].shorter):]
	testkit.Holds(t, lost == 2 && slices.ContainsFunc(unflushed, func(r record) bool { return r.verb == "loserunner" }),
		lost, "runners were lost, and the records after the last flush are", unflushed)
	for _, verb := range []string{
		"create", "claim", "tickle", "complete", "pause", "resume", "deletequeue", "deleteidle", "cancel", "redrive", "run", "delete", "patch", "stop", "start",
		"opensession", "endsession", "putdocument", "deletedocument", "loserunner", "tick", "grace", "mark", "level", "history",
	} {
		testkit.Holds(t, verbs[verb], "no", verb, "in the journal")
	}
	for _, f := range all {
		f.checkChain(t)
		f.checkLost(t)
		if s := f.want.sessions; len(s) != 2 || !strings.Contains(s[f.sessions[0]], "slots [{0 1} {3 2}]") || s[f.sessions[1]] != "not found" {
			t.Errorf("%s: sessions %q", f.name, s)
		}
	}
}

// checkChain: the fixture has a job that two jobs follow one after the other, and a completion whose jobs have pages.
func (f *fixture) checkChain(t *testing.T) {
	t.Helper()
	hops, followed := map[string]int{}, 0
	for _, doc := range f.want.docs {
		_, text, _ := strings.Cut(doc, ", hops ")
		n, _, _ := strings.Cut(text, ",")
		hops[n]++
		if strings.Contains(doc, `on_complete "type=`) {
			followed++
		}
	}
	testkit.Holds(t, hops["1"] == 5 && hops["2"] == 1 &&
		followed == 2, f.name, "jobs by hops", hops, "and", followed, "with an on_complete")
	if doc := f.want.docs[f.jobs[f.chain+2]]; !strings.Contains(doc, `"then 0 of 0 #:end`) || !strings.Contains(doc, "colour=blue") {
		t.Errorf("%s: the first chained job is %s", f.name, doc)
	}
}

// checkLost: two lost runners abandoned one job, which has used all its attempts. One lost runner abandoned the other
// job.
func (f *fixture) checkLost(t *testing.T) {
	t.Helper()
	one, two := `(runner_lost by "lost": `, `(runner_lost by "lost later": `
	for i, want := range [][]string{{"failed", " 2/2 ", " attempts 2 ", one, two, `"its runner was lost"`}, {"pending", " 1/2 ", " attempts 1 ", one, `"its runner was lost"`}} {
		doc := f.want.docs[f.jobs[f.lost+i]]
		for _, part := range want {
			testkit.Contains(t, doc, part)
		}
	}
}

type vagueError struct{}

func (vagueError) Error() string { return "something is wrong" }

// TestVerdicts: the matrix can fail. It notices a server that loses or alters data, panics or hangs, and a refusal that
// does not help.
func TestVerdicts(t *testing.T) {
	dir := memory(t)
	all := testkit.Must(fixtures(dir))(t)
	f := all[0]
	d := &damage{fixture: f, kind: "append", file: "store/LOCK", at: 1} // does no harm
	lying := func(change func(*state) (*state, error)) opener {
		return func(o ingest.Options) (server, error) {
			s, err := openReal(o)
			if err != nil {
				return nil, err
			}
			return falseServer{s, change}, nil
		}
	}
	altered := func(change func(*state)) opener {
		return lying(func(s *state) (*state, error) { change(s); return s, nil })
	}
	// in replaces a part of a document.
	in := func(of func(*state) map[job.ID]string, id job.ID, old, replacement string) opener {
		return altered(func(s *state) { of(s)[id] = strings.Replace(of(s)[id], old, replacement, 1) })
	}
	docs, sessions, batches := func(s *state) map[job.ID]string { return s.docs }, func(s *state) map[job.ID]string { return s.sessions }, func(s *state) map[job.ID]string { return s.batches }
	for name, tt := range map[string]struct {
		start opener
		want  verdict
	}{
		"the real one":                  {openReal, intact},
		"a lost job":                    {altered(func(s *state) { s.docs[f.jobs[3]] = "not found" }), lost},
		"another payload":               {in(docs, f.jobs[0], "one", "One"), lost},
		"a lost session":                {altered(func(s *state) { s.sessions[f.sessions[0]] = "not found" }), lost},
		"a session with another number": {in(sessions, f.sessions[0], "{3 2}", "{3 1}"), lost},
		"a handler that has lost its newest version": {altered(func(s *state) { s.documents = strings.Replace(s.documents, `"p1"`, `"p0"`, 1) }), lost},
		"a handler that is not deleted":              {altered(func(s *state) { s.documents = strings.Replace(s.documents, "Deleted:true", "Deleted:false", 1) }), lost},
		"a lost batch":                               {altered(func(s *state) { s.batches[f.batches[closedBatch]] = "not found" }), lost},
		"a batch with another status":                {in(batches, f.batches[failedBatch], "failed since", "cancelled since"), lost},
		"a batch that has lost its metadata":         {in(batches, f.batches[completedBatch], `metadata "about`, `metadata "`), lost},
		"a batch that is not in a list":              {altered(func(s *state) { s.lists = strings.Replace(s.lists, f.batches[pausedBatch].String()+" ", "", 1) }), lost},
		"a lost chained job":                         {altered(func(s *state) { s.docs[f.jobs[f.chain+2]] = "not found" }), lost},
		"a chained job with other hops":              {in(docs, f.jobs[f.chain+2], "hops 1", "hops 0"), lost},
		"a lost on_complete":                         {in(docs, f.jobs[f.chain], "on_complete \"type=", "on_complete \""), lost},
		"a job that a lost runner still holds":       {in(docs, f.jobs[f.lost+1], "pending", "active"), lost},
		"a lost runner whose attempts do not count":  {in(docs, f.jobs[f.lost], "2/2", "1/2"), lost},
		"an abandoned attempt without its reason":    {in(docs, f.jobs[f.lost], "its runner was lost", ""), lost},
		"an error and a lost job": {lying(func(s *state) (*state, error) {
			s.docs[f.jobs[3]] = "not found"
			return s, vagueError{}
		}), lost},
		"an error that does not help": {lying(func(s *state) (*state, error) { return s, vagueError{} }), unclear},
		"a start that does not help":  {func(ingest.Options) (server, error) { return nil, vagueError{} }, unclear},
		"a panic":                     {func(ingest.Options) (server, error) { panic("an injected panic") }, panicked},
	} {
		t.Run(name, func(t *testing.T) {
			v, detail := bounded(d, filepath.Join(dir, "verdict"), tt.start)
			testkit.Holds(t, v == tt.want, v, detail, "want", tt.want)
		})
	}
	// The window: a server that has lost the last records passes only if the store's cursor does not prove them.
	windows := 0
	for _, f := range all {
		want, before := window, all[0].shorter[len(all[0].shorter)-1]
		if f.name == "stopped" {
			want = lost
			testkit.Holds(t, len(f.shorter) == 0, "after a clean stop", len(f.shorter), "records may be missing, want none")
		} else {
			before = f.shorter[len(f.shorter)-1]
		}
		// Cut off the missing records, and as much of their proof as the last segment has.
		missing := max(len(f.shorter), 1)
		for f.name != "alone" && missing > 1 && f.places[len(f.places)-missing].file != f.places[len(f.places)-1].file {
			missing--
		}
		from := f.places[len(f.places)-missing]
		if want == window {
			// Users do not see that a mark is missing.
			if before = f.shorter[missing-1]; before.difference(f.want) == "" {
				want = intact
			} else {
				windows++
			}
		}
		d := &damage{fixture: f, kind: "cut at a byte", file: from.file, at: from.from}
		if f.name == "alone" {
			d = &damage{fixture: f, kind: "delete", file: "journal"}
		}
		v, detail := bounded(d, filepath.Join(dir, "verdict"), func(o ingest.Options) (server, error) {
			o.Dir = filepath.Join(dir, "other")
			s, err := openReal(o)
			if err != nil {
				return nil, err
			}
			return falseServer{s, func(*state) (*state, error) { return before, nil }}, nil
		})
		testkit.Equal(t, v, want, f.name, "without its last records", detail)
		testkit.NoError(t, os.RemoveAll(filepath.Join(dir, "other")))
	}
	testkit.Holds(t, windows >= 2, "only", windows, "fixtures can lose a record in the window that a user would see")
}

// TestMayMiss: damage excuses missing records if it touches the first of them and everything that proves that record. It
// may also touch older records.
func TestMayMiss(t *testing.T) {
	f := &fixture{name: "made up", places: []record{
		{file: "a", to: 10, seq: 1},
		{file: "b", to: 10, seq: 2, synced: 1},
		{file: "b", from: 10, to: 20, seq: 3, synced: 2},
		{file: "c", to: 10, seq: 4, synced: 3},
		{file: "c", from: 10, to: 20, seq: 5, synced: 4},
	}}
	for _, tt := range []struct {
		d    damage
		want []bool // for 1, 2, … missing records
	}{
		{damage{kind: "flip a bit", file: "c", at: 8 * 15}, []bool{true, false, false, false, false, false}},
		{damage{kind: "flip a bit", file: "c", at: 8 * 5}, []bool{false, false, false, false, false, false}}, // 5 proves 4
		{damage{kind: "cut at a byte", file: "c", at: 0}, []bool{true, true, false, false, false, false}},
		{damage{kind: "swap", file: "a", other: "c"}, []bool{true, true, false, false, false, false}}, // 1 is proven by 2
		{damage{kind: "swap", file: "b", other: "c"}, []bool{true, true, true, true, false, false}},
		{damage{kind: "append", file: "c"}, []bool{false, false, false, false, false, false}},
	} {
		tt.d.fixture = f
		for i, want := range tt.want {
			testkit.Equal(t, tt.d.mayMiss(i+1), want, &tt.d, i+1, "records may be missing")
		}
	}
}
