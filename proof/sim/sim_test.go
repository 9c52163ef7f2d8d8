package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/report"
)

var (
	seeds  = flag.Uint64("seeds", 0, "how many seeds to play; 0: 40, or 20 with -short")
	from   = flag.Uint64("from", 1, "the first seed")
	seed   = flag.Uint64("seed", 0, "play this seed alone, and log what happens")
	worker = flag.String("worker", "", "first,step,last: play these seeds in this process; TestSimulation sets it")
)

// result is a worker's report about one seed.
type result struct {
	Seed    uint64
	Figures Figures
	Hash    uint64 // of the log
	Error   string
	Log     string // the file with the log of a failed seed
}

// play plays one seed in virtual time, on files below dir. It logs all events to log.
func play(t *testing.T, dir string, seed uint64, l lie, log io.Writer) (r result) {
	r.Seed = seed
	base := testkit.Must(os.MkdirTemp(dir, fmt.Sprintf("seed-%d-", seed)))(t)
	defer os.RemoveAll(base)
	h := fnv.New64a()
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed) // for the journal's UUID, from which the store derives jitter
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			began := time.Now()
			w, err := newWorld(seed, base, l, func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				line := fmt.Sprintf("%v "+format+"\n", append([]any{time.Since(began)}, args...)...)
				line = strings.ReplaceAll(line, base, "")
				io.WriteString(h, line)
				io.WriteString(log, line)
			})
			if err == nil {
				err = w.play()
				r.Figures = w.account.figures
			}
			if err != nil {
				r.Error = err.Error()
				r.Figures.Violations = 1
			}
		})
	})
	r.Figures.Seeds = 1
	r.Hash = h.Sum64()
	return r
}

// memory returns a directory in memory if the machine has one, since a simulated disk needs no real one.
func memory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "daybook-sim-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestWorker plays seeds for TestSimulation, which starts one process for each processor. With one thread, a seed plays
// out the same way each time.
func TestWorker(t *testing.T) {
	if *worker == "" {
		t.Skip("TestSimulation starts this test itself")
	}
	var first, step, last uint64
	testkit.Must(fmt.Sscanf(*worker, "%d,%d,%d", &first, &step, &last))(t)
	dir := memory(t)
	for seed := first; seed <= last; seed += step {
		fmt.Printf("\nsim begin %d\n", seed)
		var log bytes.Buffer
		r := play(t, dir, seed, honest, &log)
		if r.Error != "" { // keep this log, since a second run may differ in when Pebble's goroutines run
			r.Log = filepath.Join(os.TempDir(), fmt.Sprintf("daybook-sim-seed-%d.log", seed))
			testkit.NoError(t, os.WriteFile(r.Log, log.Bytes(), 0o644))
		}
		line := testkit.Must(json.Marshal(r))(t)
		fmt.Printf("\nsim end %s\n", line)
	}
}

// TestSimulation plays many seeds, or one seed with -seed.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		runtime.GOMAXPROCS(1)
		testkit.Equal(t, play(t, memory(t), *seed, honest, os.Stdout).Error, "", "seed", *seed)
		return
	}
	n := *seeds
	if n == 0 {
		n = 40
		if testing.Short() {
			n = 20
		}
	}
	began := time.Now()
	total, failed := playAll(t, *from, *from+n-1)
	for _, r := range failed {
		t.Errorf("seed %d: %s\n\tlog: %s\n\tagain: go test ./proof/sim -run TestSimulation -v -seed %d", r.Seed, r.Error, r.Log, r.Seed)
	}
	testkit.Holds(t, uint64(total.Seeds) == n || t.Failed(), total.Seeds, "seeds were played, not", n)
	testkit.Holds(t, total.Unclaimed != 0 || t.Failed(), "no job was completed without a claim: the run proves nothing of such completions")
	testkit.Holds(t, total.Trespasses != 0 && total.TenantLists != 0 || t.Failed(), "no tenant tried to get at the jobs of others: the run proves nothing of keys")
	testkit.Holds(t, total.Losses != 0 || t.Failed(), "no runner was lost: the run proves nothing of lost runners")
	if of := []int{total.Pushes, total.LostRuns, total.LateAfterLoss, total.Silences}; slices.Contains(of, 0) && !t.Failed() {
		t.Errorf("claims of streams, begun runs that ended with them, late outcomes of such runs, and silent runners: %v; the run proves nothing of what has 0", of)
	}
	testkit.Holds(t, total.Chained != 0 && total.Followed != 0 || t.Failed(),
		"outcomes created", total.Chained, "jobs, and", total.Followed, "jobs followed others: the run proves nothing of them")
	if ends := []int{total.Completed, total.Failed, total.RestCancelled, total.Cancelled, total.Added, total.Declined, total.Results}; slices.Contains(ends, 0) && !t.Failed() {
		t.Errorf("batches with attributes that completed, failed, cancelled their other jobs, and were cancelled, creates that they accepted and refused, and results: %v; "+
			"the run proves nothing of what has 0", ends)
	}
	took := time.Since(began)
	t.Logf("%v: %+v", took.Round(time.Second), total)
	report.Write(t, "sim", table(total, *from, took, time.Duration(spent.Load())))
}

// playAll plays the seeds first to last, in one process for each processor.
func playAll(t *testing.T, first, last uint64) (total Figures, failed []result) {
	t.Helper()
	var mu sync.Mutex
	var workers sync.WaitGroup
	said := time.Now()
	n := uint64(runtime.NumCPU())
	for i := range n {
		workers.Go(func() {
			for at := first + i; at <= last; {
				next, err := runWorker(fmt.Sprintf("%d,%d,%d", at, n, last), func(r result) {
					mu.Lock()
					defer mu.Unlock()
					total.Add(r.Figures)
					if r.Error != "" {
						failed = append(failed, r)
					}
					if time.Since(said) > 10*time.Second { // real time: how often it prints its progress
						said = time.Now()
						fmt.Printf("%d of %d seeds, %d failed\n", total.Seeds, last-first+1, len(failed))
					}
				})
				if err == nil {
					return
				}
				mu.Lock()
				failed = append(failed, result{Seed: next, Error: err.Error()})
				enough := len(failed) > 20
				mu.Unlock()
				if at = next + n; next == 0 || enough {
					return
				}
			}
		})
	}
	workers.Wait()
	return total, failed
}

// spent is the processor time of the workers that have ended, ns.
var spent atomic.Int64

// maxSeedTime bounds the time of a seed. Most take a tenth of a second. A seed that takes longer than the bound is
// undecided.
const maxSeedTime = 10 * time.Minute

// runWorker runs a worker process. If the worker dies or hangs, it returns the seed at which this happened.
func runWorker(which string, each func(result)) (at uint64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, "-test.run=^TestWorker$", "-test.timeout=0", "-worker="+which)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var late atomic.Bool
	watchdog := time.AfterFunc(maxSeedTime, func() { late.Store(true); cmd.Process.Kill() })
	defer watchdog.Stop()
	var rest []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "sim begin "); ok {
			watchdog.Reset(maxSeedTime)
			fmt.Sscan(text, &at)
		} else if text, ok := strings.CutPrefix(line, "sim end "); ok {
			var r result
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				return at, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
			}
			each(r)
		} else if len(rest) < 60 && line != "" {
			rest = append(rest, line)
		}
	}
	err = cmd.Wait()
	spent.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
	if late.Load() {
		return at, fmt.Errorf("undecided: not finished after %v, since the machine is too slow or the seed hangs", maxSeedTime)
	}
	if err != nil {
		text := trouble.String() + strings.Join(rest, "\n")
		return at, fmt.Errorf("the worker process ended during this seed: %w\n%s", err, text[:min(len(text), 4000)])
	}
	return at, nil
}

func table(f Figures, from uint64, took, cpu time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Seeds %d to %d, in %v (%v of processor time on %d cores).\n\n", from,
		from+uint64(f.Seeds)-1, took.Round(time.Second), cpu.Round(time.Second), runtime.NumCPU())
	fmt.Fprintf(&b, "| what | how many |\n|---|---|\n")
	for _, row := range []struct {
		name string
		n    any
	}{
		{"seeds", f.Seeds}, {"power losses", f.PowerLosses}, {"kills", f.Kills}, {"clean stops", f.Stops},
		{"faults of the disk", f.Faults}, {"starts that an injected fault ended", f.Refused},
		{"batches acknowledged", f.Creates}, {"jobs acknowledged", f.Jobs}, {"jobs that were created alone and share a record", f.Joined}, {"claims answered", f.Claims}, {"completions answered", f.Ends},
		{"operations answered (cancel, redrive, delete, patch, pause, stop)", f.Operations}, {"sweeps that went on after their command", f.Sweeps},
		{"queues deleted", f.Queues}, {"jobs that outcomes created", f.Chained}, {"jobs created because others completed", f.Followed}, {"handlers and filesets stored and deleted", f.Documents}, {"refused because another version was stored", f.Differing}, {"batches with attributes that completed", f.Completed}, {"that failed", f.Failed}, {"that failed and cancelled their other jobs", f.RestCancelled},
		{"that were cancelled", f.Cancelled}, {"creates that added jobs to a batch", f.Added}, {"creates that a batch refused", f.Declined}, {"results of batches read", f.Results},
		{"outcomes of jobs that nobody had claimed, or another", f.Unclaimed}, {"jobs set aside as damaged", f.SetAside},
		{"claims whose jobs streams sent", f.Pushes}, {"begun runs that ended with their streams", f.LostRuns}, {"late outcomes of such runs that were accepted", f.LateAfterLoss}, {"times that a runner proved silent", f.Silences}, {"commands in the journals", f.Commands}, {"requests with a number of a session", f.Numbered},
		{"requests that named what their keys are not for, all refused", f.Trespasses}, {"times that the lists of a tenant were compared", f.TenantLists},
		{"times that everything was compared", f.Checks}, {"times that a cut journal was compared with the store's disk", f.Cuts}, {"documents of acknowledged jobs read back", f.Read},
		{"acknowledged jobs lost", f.Lost}, {"seeds with a violation", f.Violations},
	} {
		fmt.Fprintf(&b, "| %s | %v |\n", row.name, row.n)
	}
	return b.String()
}
