package crash

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/powerfs"
	"github.com/daybookq/daybook/proof/report"
)

var (
	full  = flag.Bool("full", false, "run everything, about half an hour; otherwise a little of each lane")
	seed  = flag.Uint64("seed", 0, "seed of the plan; 0: a random one, which is printed. A seed repeats the plan, not the run")
	kills = flag.Int("kills", 0, "how many SIGKILLs; 0: 200 with -full, otherwise a few")
	cuts  = flag.Int("cuts", 0, "how many power cuts; 0: 500 with -full, otherwise a few")
)

var binary string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(serveSmall(os.Args[2:]))
	}
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	*kills, *cuts = cmp.Or(*kills, inFull(200, 3)), cmp.Or(*cuts, inFull(500, 6))
	var err error
	if binary, err = daybooktest.Binary(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("crash: seed %d, %d kills, %d cuts, binary %s\n", *seed, *kills, *cuts, binary)
	os.Exit(m.Run())
}

// inFull returns a number for a full run, or for a short one.
func inFull(most, few int) int {
	if *full {
		return most
	}
	return few
}

// reportRow is the line of a lane in the report.
type reportRow struct {
	lane, what string // such as "Kills", "200 kills by SIGKILL"
	tally      tally
	took       time.Duration
}

var rows []reportRow

// lane is a test that does one kind of harm.
type lane struct {
	*testing.T
	rng   *rand.Rand
	began time.Time
	tally tally
}

func newLane(t *testing.T, number uint64) *lane {
	return &lane{T: t, rng: rand.New(rand.NewPCG(*seed, number)), began: time.Now()}
}

// report adds the row of the lane, unless the lane failed.
func (l *lane) report(what string) {
	l.Helper()
	c := l.tally
	l.Logf("%s: %+v in %v", what, c, time.Since(l.began).Round(time.Millisecond))
	if c.Ended == 0 || c.Checked == 0 {
		l.Error(undecided("there was hardly any load, so the lane proves nothing: %+v", c))
	}
	if !l.Failed() {
		rows = append(rows, reportRow{lane: l.Name()[len("Test"):], what: what, tally: c, took: time.Since(l.began)})
	}
}

// mustChain fails the lane if it had hardly any chained jobs. A short run on a busy machine may have none.
func (l *lane) mustChain() {
	l.Helper()
	if c := l.tally; *full && (c.Chained == 0 || c.Followed == 0) {
		l.Error(undecided("outcomes created %d jobs, and %d jobs followed others, so the lane proves nothing of them", c.Chained, c.Followed))
	}
}

// mustLose fails the lane if no runner was declared lost.
func (l *lane) mustLose() {
	l.Helper()
	if *full && l.tally.LostRunners == 0 {
		l.Error(undecided("no runner was lost, so the lane proves nothing of lost runners"))
	}
}

// newTrial creates a server, and kills it at the end of the test.
func (l *lane) newTrial(name, data string) *trial {
	l.Helper()
	s := testkit.Must(newTrial(name, binary, data))(l)
	l.Cleanup(func() { testkit.Check(l, s.server.Kill()); s.u.http.CloseIdleConnections() })
	return s
}

// useSmallFiles makes a trial use the server with small files.
func (l *lane) useSmallFiles(s *trial) { s.server.Binary = testkit.Must(os.Executable())(l) }

// wait waits until so returns true.
func (l *lane) wait(s *trial, what string, so func() bool) {
	l.Helper()
	for deadline := time.Now().Add(maxWait); !so(); {
		if time.Now().After(deadline) {
			l.must(s, undecided("waited for %v until %s", maxWait, what))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitLoad waits until this many more creates are acknowledged; the server must not end before. Without load the server
// could lose nothing.
func (l *lane) awaitLoad(s *trial, c *crowd, creates int64) {
	l.Helper()
	acked := c.acked.Load()
	l.wait(s, "there is load", func() bool {
		if s.ended() {
			l.must(s, fmt.Errorf("the server ended under load: %w", s.server.Err()))
		}
		return c.acked.Load() >= acked+creates
	})
}

// load returns a random load for one server.
func (l *lane) load() load {
	out := standardLoad
	switch l.rng.IntN(4) {
	case 0:
		out.size, out.lines = 2000, 200
	case 1:
		out.producers, out.runners, out.lines = 6, 8, 3
	}
	return out
}

// must ends the test if err is not nil. It prints the end of the server's log, and then err.
func (l *lane) must(s *trial, err error) {
	l.Helper()
	if err != nil {
		log := s.log.String()
		l.Fatalf("%s, seed %d\nthe end of the server's log:\n%s\nits data: %s\n%s, seed %d: %v", s.name, *seed, log, l.evidence(s), s.name, *seed, err)
	}
}

// evidence keeps a copy of the data of a server that failed.
func (l *lane) evidence(s *trial) string {
	if err := s.kill(); err != nil {
		return err.Error()
	}
	dir, err := os.MkdirTemp("", "daybook-crash-evidence-")
	if err != nil {
		return err.Error()
	}
	if err := os.CopyFS(dir, os.DirFS(s.server.Data)); err != nil {
		return err.Error()
	}
	return dir
}

// finish finishes a trial, and adds its counts to the lane's.
func (l *lane) finish(s *trial) {
	l.Helper()
	l.must(s, s.finish(l.rng.Uint64()))
	report.Add(&l.tally, s.h.count)
}

// powerFS mounts a file system whose power can be cut. If the system cannot mount it, a full run fails, and a short run
// skips the test.
func (l *lane) powerFS() (*powerfs.FS, string) {
	l.Helper()
	dir := filepath.Join(l.TempDir(), "disk")
	testkit.NoError(l, os.Mkdir(dir, 0o755))
	f, err := powerfs.Mount(dir)
	if err != nil {
		testkit.MustHold(l, !*full, err)
		l.Skip(err)
	}
	l.Cleanup(func() { testkit.Check(l, f.Close()) })
	return f, dir
}

// between returns a random time.
func (l *lane) between(low, high time.Duration) time.Duration {
	return low + time.Duration(l.rng.Int64N(int64(high-low)+1))
}

// progress prints a line in a full run, which takes long.
func (l *lane) progress(format string, args ...any) {
	if *full {
		fmt.Printf("%s %s: %s\n", time.Now().Format(time.TimeOnly), l.Name(), fmt.Sprintf(format, args...))
	}
}
