package measure

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/peers/process"
	"github.com/daybookq/daybook/internal/testkit"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		figures []float64
		want    Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{9, 1, 2}, Spread{2, 1, 9}},
		{[]float64{4, 1, 2, 10}, Spread{3, 1, 10}},
	} {
		testkit.Equal(t, spreadOf(c.figures), c.want, "the spread of", c.figures)
	}
}

func resultOf(driver, work string, rates ...float64) *Result {
	r := &Result{Block: "b", Driver: driver, Work: work}
	for round, rate := range rates {
		if rate > 0 {
			r.Turns = append(r.Turns, TurnResult{Round: round, Jobs: int(rate), Seconds: 1, P99: 10 * float64(round+1)})
		}
	}
	return r
}

// TestRatio: turns of the same round are compared, and a round that one of the two misses does not count.
func TestRatio(t *testing.T) {
	got, ok := Ratio(resultOf("a", "w", 100, 300, 200), resultOf("b", "w", 50, 0, 400))
	want := (Spread{1.25, 0.5, 2})
	testkit.Holds(t, ok && got == want, "the ratio is", got, ok, "expected", want)
	_, ok = Ratio(resultOf("a", "w", 100), resultOf("b", "w", 0, 100))
	testkit.Holds(t, !ok, "turns of different rounds have a ratio")
}

func TestJudge(t *testing.T) {
	r := &Report{Results: []*Result{resultOf("ours", "w", 100, 110, 120), resultOf("theirs", "w", 50, 50, 50)}}
	outcomes := r.Judge([]Target{
		{Title: "reached", Block: "b", Ours: Of{"ours", "w"}, Theirs: Of{"theirs", "w"}, Least: 2},
		{Title: "missed", Block: "b", Ours: Of{"ours", "w"}, Theirs: Of{"theirs", "w"}, Least: 3},
		{Title: "too late", Block: "b", Ours: Of{"ours", "w"}, Theirs: Of{"theirs", "w"}, Least: 2, P99: 15},
		{Title: "of another block", Block: "c", Ours: Of{"ours", "w"}, Theirs: Of{"theirs", "w"}, Least: 2},
	})
	for i, want := range []struct{ measured, met bool }{{true, true}, {true, false}, {true, false}, {false, false}} {
		o := outcomes[i]
		testkit.Holds(t, o.Measured == want.measured && o.Met == want.met, o.Title, "measured", o.Measured, "met", o.Met, "expected", want)
	}
}

// TestTargets: every target names works that its block has.
func TestTargets(t *testing.T) {
	has := map[string]bool{}
	for _, b := range Blocks() {
		for _, w := range b.Works {
			has[b.Name+" "+w.Name] = true
		}
		for driver, works := range b.Also {
			for _, w := range works {
				has[b.Name+" "+driver+" "+w.Name] = true
			}
		}
	}
	for _, target := range Targets() {
		for _, of := range []Of{target.Ours, target.Theirs} {
			testkit.Holds(t, has[target.Block+" "+of.Work] || has[target.Block+" "+of.Driver+" "+of.Work],
				target.Title, "block", target.Block, "does not measure", of.Work, "of", of.Driver)
		}
	}
}

// fake is a driver of a queue in memory. Its server is a process that does nothing.
type fake struct {
	name    string
	t       *testing.T
	most    int                   // jobs of one call; 0: any number
	failAt  int64                 // the create that fails; 0: none
	stuck   bool                  // creates wait for the end of their context
	began   chan struct{}         // closed by the first create
	servers chan *process.Process // all servers that were started
	works   func(Work) bool
}

func newFake(t *testing.T) *fake {
	return &fake{name: "fake", t: t, began: make(chan struct{}), servers: make(chan *process.Process, 100), works: func(Work) bool { return true }}
}

func (f *fake) Name() string     { return f.name }
func (f *fake) Does(w Work) bool { return f.works(w) }
func (f *fake) Describe(context.Context) (Description, error) {
	return Description{Driver: "fake"}, nil
}

func (f *fake) Start(_ context.Context, dir string) (Session, error) {
	p, err := process.Start(process.Command{Path: "/bin/sleep", Args: []string{"600"}, Dir: dir})
	if err != nil {
		return nil, err
	}
	f.servers <- p
	return &fakeSession{fake: f, server: p, most: f.most}, nil
}

type fakeSession struct {
	*fake
	server        *process.Process
	most          int
	creates       atomic.Int64
	waiting, done atomic.Int64
}

func (s *fakeSession) Pid() int     { return s.server.Pid() }
func (s *fakeSession) Close() error { return s.server.Close() }

func (s *fakeSession) Fill(_ context.Context, jobs int) error { s.waiting.Add(int64(jobs)); return nil }

func (s *fakeSession) Dial(context.Context, int) (Conn, error) { return &fakeConn{s: s}, nil }

func (s *fakeSession) MostJobs() int {
	if s.most == 0 {
		return 1 << 20
	}
	return s.most
}

type fakeConn struct {
	s    *fakeSession
	held int
}

var errFake = errors.New("the disk is full")

func (c *fakeConn) Create(ctx context.Context, jobs int) error {
	n := c.s.creates.Add(1)
	if n == 1 && c.s.stuck {
		close(c.s.began)
	}
	if c.s.stuck {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if n == c.s.failAt {
		return errFake
	}
	if c.s.most > 0 && jobs > c.s.most {
		return errors.New("too many jobs in a call")
	}
	c.s.waiting.Add(int64(jobs))
	return nil
}

func (c *fakeConn) Claim(_ context.Context, most int) (int, error) {
	for {
		waiting := c.s.waiting.Load()
		got := min(waiting, int64(most))
		if c.s.waiting.CompareAndSwap(waiting, waiting-got) {
			c.held = int(got)
			return c.held, nil
		}
	}
}

func (c *fakeConn) Complete(context.Context) error {
	c.s.done.Add(int64(c.held))
	c.held = 0
	return nil
}

func (c *fakeConn) Exchange(ctx context.Context, most int) (int, error) {
	if err := c.Complete(ctx); err != nil {
		return 0, err
	}
	return c.Claim(ctx, most)
}

func (c *fakeConn) Close() error { return nil }

// TestLoops: each kind of work does exactly the jobs of its turn, even if a call takes only one job.
func TestLoops(t *testing.T) {
	for _, w := range []Work{CreateBulk, CreateOne, DrainBulk, ExchangeBulk, ExchangeOne, BothBulk, LifecycleOne} {
		for _, most := range []int{0, 1} {
			f := newFake(t)
			f.most = most
			started := testkit.Must(f.Start(t.Context(), t.TempDir()))(t)
			s := started.(*fakeSession)
			turn := &Turn{Work: w, Jobs: 5003}
			testkit.Check(t, measureOn(t.Context(), s, turn), w.Name)
			done := s.done.Load()
			if w.Kind == Create {
				done = s.waiting.Load()
			} else if s.waiting.Load() != 0 {
				t.Errorf("%s: %d jobs were left", w.Name, s.waiting.Load())
			}
			testkit.Equal(t, done, 5003, w.Name, "jobs were done")
			measured, err := turn.result(0)
			testkit.Holds(t, err == nil && measured.Seconds > 0 && measured.Calls != 0 && measured.P99 >= measured.P50, w.Name, measured, err)
			testkit.Check(t, s.Close())
		}
	}
}

// ended checks that all servers of a fake have ended, and that their directories are gone.
func (f *fake) ended(dir string) (started int) {
	f.t.Helper()
	close(f.servers)
	for p := range f.servers {
		started++
		select {
		case <-p.Done():
		default:
			f.t.Errorf("server %d still runs", p.Pid())
		}
		err := syscall.Kill(p.Pid(), 0)
		testkit.Holds(f.t, errors.Is(err, syscall.ESRCH), "server", p.Pid(), "is still there", err)
	}
	left, err := os.ReadDir(dir)
	testkit.Holds(f.t, err == nil && len(left) == 0, "the directory has", left, "left", err)
	return started
}

func runOf(f *fake, dir string) *Run {
	return &Run{Drivers: []Driver{f}, Rounds: 3, Turn: 2 * time.Millisecond, Dir: dir, Progress: func(string) {}}
}

func TestRounds(t *testing.T) {
	f, dir := newFake(t), t.TempDir()
	results := testkit.Must(runOf(f, dir).Block(t.Context(), Block{Name: "b", Works: []Work{LifecycleOne}, Also: map[string][]Work{"fake": {DrainBulk}}}))(t)
	testkit.Holds(t, len(results) == 2 && len(results[0].Turns) == 3 && len(results[1].Turns) == 3 && results[1].Work == DrainBulk.Name,
		"the results are", results)
	testkit.Equal(t, f.ended(dir), 8, "servers were started") // each of the two is calibrated, and has three turns
}

// TestOrder: the turns of a driver are next to each other, and the results are in the order of the works.
func TestOrder(t *testing.T) {
	one, other, dir := newFake(t), newFake(t), t.TempDir()
	other.name = "other"
	r := runOf(one, dir)
	r.Drivers, r.Rounds = []Driver{one, other}, 1
	b := Block{Name: "b", Works: []Work{CreateOne, LifecycleOne}, Also: map[string][]Work{"fake": {DrainBulk}}}
	var order []string
	for _, c := range r.cells(b) {
		order = append(order, c.driver.Name()+" "+c.work.Name)
	}
	testkit.EqualSlices(t, order,
		[]string{"fake create-one", "fake lifecycle-one", "fake drain-bulk", "other create-one", "other lifecycle-one"}, "the order")
	results := testkit.Must(r.Block(t.Context(), b))(t)
	order = nil
	for _, result := range results {
		order = append(order, result.Driver+" "+result.Work)
	}
	testkit.EqualSlices(t, order,
		[]string{"fake create-one", "other create-one", "fake lifecycle-one", "other lifecycle-one", "fake drain-bulk"}, "the results")
	one.ended(dir)
	other.ended(dir)
}

// TestFailure: a driver that fails is reported, its server is ended, and the other drivers continue.
func TestFailure(t *testing.T) {
	f, other, dir := newFake(t), newFake(t), t.TempDir()
	f.failAt = 100
	r := runOf(f, dir)
	r.Drivers = append(r.Drivers, other)
	results := testkit.Must(r.Block(t.Context(), Block{Name: "b", Works: []Work{CreateOne}}))(t)
	testkit.Holds(t, len(results[0].Turns) == 0 && strings.Contains(results[0].Error, errFake.Error()),
		"the result of the driver that fails is", results[0])
	testkit.Holds(t, len(results[1].Turns) == 3 && results[1].Error == "", "the result of the other driver is", results[1])
	f.ended(dir)
	other.ended(dir)
}

// TestInterrupt: the end of the context ends the run, and the server.
func TestInterrupt(t *testing.T) {
	f, dir := newFake(t), t.TempDir()
	f.stuck = true
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	go func() { <-f.began; cancel(interrupted) }()
	testkit.Fails(runOf(f, dir).Block(ctx, Block{Name: "b", Works: []Work{CreateOne}}))(t, interrupted)
	f.ended(dir)
}
