package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/powerfs"
	"github.com/daybookq/daybook/proof/report"
)

var (
	full = flag.Bool("full", false, "run a hundred faults; otherwise about ten")
	seed = flag.Uint64("seed", 0, "seed of the plan; 0: a random one, which is printed. A seed repeats the plan, not the run")
)

var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	var err error
	if binary, err = daybooktest.Binary(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("cluster: seed %d, binary %s\n", *seed, binary)
	os.Exit(m.Run())
}

// perTrial is the number of faults of one cluster. Each cluster is judged at its end.
const perTrial = 10

// inFull returns a number for a full run, or for a short one.
func inFull[T any](full_, short T) T {
	if *full {
		return full_
	}
	return short
}

// reportRow is the line of a lane in the report.
type reportRow struct {
	lane, what string
	tally      tally
	gaps       gaps
	took       time.Duration
}

var rows []reportRow

// lane is a test that does one kind of harm.
type lane struct {
	*testing.T
	rng   *rand.Rand
	began time.Time
	tally tally
	gaps  gaps
}

func newLane(t *testing.T, number uint64) *lane {
	return &lane{T: t, rng: rand.New(rand.NewPCG(*seed, number)), began: time.Now()}
}

// newTrial prepares a cluster, whose nodes end with the test.
func (l *lane) newTrial(name string) *trial {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t := &trial{
		Nodes: &rig.Nodes{Ctx: ctx, Dir: l.TempDir(), HTTP: newHTTP(nil), Place: rig.OnLoopback(binary)},
		name:  name, size: 3, l: newLedger(), rng: rand.New(rand.NewPCG(l.rng.Uint64(), 0)), disks: map[string]*powerfs.FS{}, gaps: &l.gaps,
		longest: inFull(5*time.Second, 1500*time.Millisecond),
		say: func(format string, args ...any) {
			l.Logf("%v: "+format, append([]any{time.Since(l.began).Round(time.Millisecond)}, args...)...)
		},
	}
	l.Cleanup(func() {
		cancel()
		if t.o != nil {
			t.o.abandon()
		}
		testkit.Check(l, t.End())
		t.HTTP.CloseIdleConnections()
	})
	return t
}

// run attacks a cluster, and judges it.
func (l *lane) run(t *trial, from []fault, n int) {
	l.Helper()
	err := t.begin()
	for _, f := range t.plan(from, n) {
		if err == nil {
			err = t.attack(f, from)
		}
	}
	if err == nil {
		err = t.finish()
	}
	if err != nil {
		// What was wrong under load may be the reason, or a consequence.
		for _, problem := range t.l.wrong {
			err = errors.Join(err, errors.New(problem))
		}
		l.Fatalf("%s, seed %d; the data and logs of the nodes are in %s: %v", t.name, *seed, t.evidence(), err)
	}
	report.Add(&l.tally, t.l.count)
	l.Logf("%s: %+v", t.name, t.l.count)
}

// report adds the row of the lane.
func (l *lane) report(what string) {
	l.Helper()
	if c := l.tally; c.Acked == 0 || c.Completed == 0 || c.Histories == 0 || c.Reads == 0 {
		l.Errorf("there was hardly any load, so the lane proves nothing: %+v", c)
	}
	if !l.Failed() {
		rows = append(rows, reportRow{l.Name()[len("Test"):], what, l.tally, l.gaps, time.Since(l.began)})
	}
}

// TestFaults kills, freezes and stops nodes, lets others lead, and replaces nodes whose data are lost.
func TestFaults(t *testing.T) {
	l := newLane(t, 1)
	faults := inFull(50, 3)
	for done := 0; done < faults; done += perTrial {
		s := l.newTrial(fmt.Sprint("f", done/perTrial))
		if done/perTrial%2 == 1 {
			s.size = 5
		}
		l.run(s, processFaults, min(perTrial, faults-done))
	}
	l.report(fmt.Sprint(l.tally.Faults, " faults of processes and their data"))
}

// TestPartitions cuts the network between nodes, also in one direction only. The nodes use certificates.
func TestPartitions(t *testing.T) {
	l := newLane(t, 2)
	faults := inFull(50, 3)
	for done := 0; done < faults; done += perTrial {
		s := l.newTrial(fmt.Sprint("p", done/perTrial))
		l.useNetwork(s)
		l.run(s, networkFaults, min(perTrial, faults-done))
	}
	l.report(fmt.Sprint(l.tally.Faults, " faults of the network"))
}

// useNetwork gives each node a machine of its own. If the system has no network namespaces, a full run fails, and a short
// run skips the test.
func (l *lane) useNetwork(t *trial) {
	l.Helper()
	w, err := newNetwork(t.size)
	if errors.Is(err, errNoNetwork) && !*full {
		l.Skip("skipped: ", err)
	}
	testkit.NoError(l, err)
	t.net, t.HTTP = w, newHTTP(w.dial)
	t.Place = testkit.Must(w.places(binary, l.TempDir()))(l)
	l.Cleanup(func() { testkit.Check(l, w.close()) })
}

// TestDisks cuts the power of nodes, and gives them slow and failing disks.
func TestDisks(t *testing.T) {
	l := newLane(t, 3)
	faults := inFull(30, 3)
	for done := 0; done < faults; done += perTrial {
		s := l.newTrial(fmt.Sprint("d", done/perTrial))
		l.useDisks(s)
		l.run(s, diskFaults, min(perTrial, faults-done))
	}
	l.report(fmt.Sprintf("%d faults of disks and their power", l.tally.Faults))
}

// useDisks gives each node a disk whose power can be cut. If the system cannot mount it, a full run fails, and a short run
// skips the test.
func (l *lane) useDisks(t *trial) {
	l.Helper()
	of := t.Place
	t.Place = func(n int) (rig.Place, error) {
		p, err := of(n)
		if err != nil {
			return p, err
		}
		p.Data = filepath.Join(t.Dir, fmt.Sprint("disk", n))
		disk, err := t.mountDisk(p)
		if err != nil && !*full {
			l.Skip("skipped: ", err)
		}
		if err == nil {
			l.Cleanup(func() { testkit.Check(l, disk.Close()) })
		}
		return p, err
	}
}
