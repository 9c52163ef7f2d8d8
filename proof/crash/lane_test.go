package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/proof/powerfs"
)

var (
	full  = flag.Bool("full", false, "all of it, about 25 minutes; otherwise a little of everything")
	seed  = flag.Uint64("seed", 0, "what is done when; 0: chosen and printed. Processes and disks have their own will, so it repeats only the plan")
	kills = flag.Int("kills", 0, "SIGKILLs; 0: 200 with -full, else a few")
	cuts  = flag.Int("cuts", 0, "power cuts; 0: 500 with -full, else a few")
)

var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	either := func(n *int, inFull, inShort int) {
		if *n == 0 {
			*n = inShort
			if *full {
				*n = inFull
			}
		}
	}
	either(kills, 200, 6)
	either(cuts, 500, 12)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "daybook-crash-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary, err = rig.Binary(dir); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("crash: seed %d, %d kills, %d cuts, binary %s\n", *seed, *kills, *cuts, binary)
	return m.Run()
}

// row is a lane's line in the report.
type row struct {
	lane, what string // "SIGKILL", "200 kills"
	tally      tally
	took       time.Duration
}

var rows []row

// lane is a test's account of itself.
type lane struct {
	*testing.T
	rng   *rand.Rand
	began time.Time
	tally tally
}

func newLane(t *testing.T, number uint64) *lane {
	return &lane{T: t, rng: rand.New(rand.NewPCG(*seed, number)), began: time.Now()}
}

// report adds the lane's row; a lane that failed has none.
func (l *lane) report(what string) {
	l.Helper()
	c := l.tally
	l.Logf("%s: %+v in %v", what, c, time.Since(l.began).Round(time.Millisecond))
	if c.Ended == 0 || c.Checked == 0 {
		l.Errorf("there was hardly any load: %+v", c)
	}
	if !l.Failed() {
		rows = append(rows, row{lane: l.Name()[len("Test"):], what: what, tally: c, took: time.Since(l.began)})
	}
}

// stage makes a server and sees to its end.
func (l *lane) stage(name, data string, args ...string) *stage {
	l.Helper()
	s, err := newStage(name, binary, data, args...)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := s.server.Kill(); err != nil {
			l.Error(err)
		}
		s.u.http.CloseIdleConnections()
	})
	return s
}

// must ends the test where an error came, with what the server said last.
func (l *lane) must(s *stage, err error) {
	l.Helper()
	if err != nil {
		l.Fatalf("%s, seed %d: %v\nthe server's last words:\n%s", s.name, *seed, err, s.said)
	}
}

// finish finishes a stage and adds its account to the lane's.
func (l *lane) finish(s *stage) {
	l.Helper()
	err := s.finish(l.rng.Uint64())
	l.must(s, err)
	l.tally.add(s.h.count)
}

// powerFS mounts a file system whose power can be cut, or says why there is none: then a full run fails, and a short one leaves it.
func (l *lane) powerFS() (*powerfs.FS, string) {
	l.Helper()
	dir := filepath.Join(l.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		l.Fatal(err)
	}
	f, err := powerfs.Mount(dir)
	if err != nil {
		if *full {
			l.Fatal(err)
		}
		l.Skip(err)
	}
	l.Cleanup(func() {
		if err := f.Close(); err != nil {
			l.Error(err)
		}
	})
	return f, dir
}

// between draws a time.
func (l *lane) between(low, high time.Duration) time.Duration {
	return low + time.Duration(l.rng.Int64N(int64(high-low)+1))
}

// progress prints a line in a full run, which takes long.
func (l *lane) progress(format string, args ...any) {
	if *full {
		fmt.Printf("%s %s: %s\n", time.Now().Format(time.TimeOnly), l.Name(), fmt.Sprintf(format, args...))
	}
}
