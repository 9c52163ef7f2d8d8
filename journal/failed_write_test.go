package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/wal"
	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

var errDisk = errors.New("input/output error, injected")

// faulty makes file system calls fail on demand.
type faulty struct {
	write, sync, truncate, syncFile, remove, openLog atomic.Bool
	handles                                          atomic.Int64 // logs opened
	after                                            atomic.Value // *wal.Log that has failed; no more calls may be made on it
	t                                                *testing.T
}

func (f *faulty) touched(l *wal.Log) {
	failed, _ := f.after.Load().(*wal.Log)
	testkit.Holds(f.t, failed != l, "a call on a handle that had failed")
}

func (f *faulty) hooks() Hooks {
	fail := func(on *atomic.Bool) error {
		if on.Load() {
			return errDisk
		}
		return nil
	}
	return Hooks{
		OpenLog: func(path string, n int) (*wal.Log, error) {
			f.handles.Add(1)
			if err := fail(&f.openLog); err != nil {
				return nil, err
			}
			return OpenLog(path, n)
		},
		Write: func(l *wal.Log, b *wal.Batch) error {
			f.touched(l)
			err := l.WriteBatch(b) // the worst case: the bytes are in the file
			if e := fail(&f.write); e != nil {
				f.after.Store(l)
				return e
			}
			return err
		},
		Sync: func(l *wal.Log) error {
			f.touched(l)
			if err := fail(&f.sync); err != nil {
				f.after.Store(l)
				return err
			}
			return l.Sync()
		},
		SyncFile: func(file *os.File) error { return errors.Join(fail(&f.syncFile), file.Sync()) },
		Truncate: func(file *os.File, n int64) error {
			if err := fail(&f.truncate); err != nil {
				return err
			}
			return file.Truncate(n)
		},
		Remove: func(path string) error {
			if err := fail(&f.remove); err != nil {
				return err
			}
			return os.Remove(path)
		},
	}
}

func TestFailedGroup(t *testing.T) {
	for name, set := range map[string]func(*faulty) *atomic.Bool{
		"write": func(f *faulty) *atomic.Bool { return &f.write },
		"fsync": func(f *faulty) *atomic.Bool { return &f.sync },
	} {
		t.Run("failed "+name+", truncation proven", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faulty{t: t}
				r := mustRun(t, Options{SegmentBytes: 500, Hooks: f.hooks()})
				r.mustPut("create", "kept")
				time.Sleep(time.Second)
				before := r.Synced() // with the mark
				set(f).Store(true)
				a := r.put(Bulk, "create", "lost")
				testkit.MustHold(t, errors.Is(a.err, ErrNotStored) && errors.Is(a.err, errDisk) && !errors.Is(a.err, ErrUnknown), a)
				// The disk does not accept the mark at the end of a repair either, so writes stay down.
				synctest.Wait()
				_, err := r.propose(Control, "claim", "")
				testkit.MustHold(t, errors.Is(err, ErrFailed) && errors.Is(err, errDisk) && errors.Is(r.Health(), ErrFailed), err, r.Health())
				for rec, err := range r.Records(1) { // reads still work
					testkit.MustHold(t, err == nil && rec.Seq <= before, rec, err)
				}
				set(f).Store(false)
				time.Sleep(maxRepairWait)
				synctest.Wait()
				testkit.NoError(t, r.Health(), "not up again")
				testkit.MustEqual(t, r.Synced(), before+1) // the mark of the repair has the seq of the failed group
				a = r.mustPut("create", "after")
				testkit.MustEqual(t, a.seq, before+2, a)
				st := r.Status()
				testkit.MustHold(t, st.Failures == 1 && st.Repairs == 1 && st.LastError != "" && st.Failing == nil, st)
				r.stop()
				for _, g := range r.got {
					testkit.MustHold(t, string(g.Body) != "lost", "the lost one was handed over")
				}
			})
		})
		t.Run("failed "+name+", once", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faulty{t: t}
				r := mustRun(t, Options{SegmentBytes: 500, Hooks: f.hooks()})
				for i := range 20 {
					set(f).Store(i%3 == 1)
					a := r.put(Bulk, "create", fmt.Sprint(i))
					testkit.MustEqual(t, i%3 == 1, errors.Is(a.err, ErrNotStored), i, a)
					set(f).Store(false)
					time.Sleep(maxRepairWait)
				}
				r.stop()
			})
		})
	}
	t.Run("unknown while the truncation fails, then truncated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{t: t}
			r := mustRun(t, Options{Hooks: f.hooks()})
			r.mustPut("create", "kept")
			time.Sleep(time.Second)
			f.sync.Store(true)
			f.truncate.Store(true)
			a := r.put(Bulk, "create", "unknown")
			testkit.MustHold(t, errors.Is(a.err, ErrUnknown) && !errors.Is(a.err, ErrNotStored) && errors.Is(a.err, errDisk), a)
			testkit.MustHold(t, r.Appended() > r.Synced(), "appended does not include the written bytes", r.Appended(), r.Synced())
			time.Sleep(time.Minute) // attempts fail, and the time between them grows
			n := f.handles.Load()
			testkit.MustHold(t, n <= 2, n)
			f.sync.Store(false)
			f.truncate.Store(false)
			_, err := r.propose(Control, "claim", "")
			testkit.MustHold(t, errors.Is(err, ErrFailed), err)
			synctest.Wait() // the proposal has triggered an attempt
			testkit.NoError(t, r.Health())
			r.mustPut("create", "after")
			r.stop()
		})
	})
	t.Run("a stop while writes are down says so", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{t: t}
			r := mustRun(t, Options{Hooks: f.hooks()})
			r.mustPut("create", "kept")
			f.sync.Store(true)
			f.truncate.Store(true)
			a := r.put(Bulk, "create", "unknown")
			testkit.MustHold(t, errors.Is(a.err, ErrUnknown), a)
			r.cancel()
			err := <-r.ran
			testkit.MustHold(t, errors.Is(err, ErrFailed) && errors.Is(err, errDisk), err)
			testkit.NoError(t, r.Close())
			// After the restart the command is there, which ErrUnknown allows.
			expect(t, startOnce(t, r.o.Dir, 1), 2)
		})
	})
	t.Run("commands that wait are answered with ErrNotStored", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, g := &faulty{t: t}, newGate()
			h := f.hooks()
			inner := h.Sync
			h.Sync = func(l *wal.Log) error {
				g.entered <- struct{}{}
				<-g.open
				return inner(l)
			}
			r := mustRun(t, Options{inFlightBytes: 2000, Hooks: h})
			g.open <- struct{}{}
			r.mustPut("create", "kept")
			<-g.entered
			one, _ := r.propose(Bulk, "create", "")
			<-g.entered
			two, _ := r.propose(Bulk, "create", "")
			three := make(chan error, 1)
			go func() { _, err := r.propose(Bulk, "create", strings.Repeat("x", 1900)); three <- err }()
			synctest.Wait()
			f.sync.Store(true)
			f.truncate.Store(true)
			close(g.open)
			a := <-one
			testkit.MustHold(t, errors.Is(a.err, ErrUnknown), a)
			a = <-two
			testkit.MustHold(t, errors.Is(a.err, ErrNotStored) && errors.Is(a.err, ErrFailed), a)
			err := <-three
			testkit.MustHold(t, errors.Is(err, ErrFailed), err)
			f.sync.Store(false)
			f.truncate.Store(false)
			time.Sleep(maxRepairWait)
			synctest.Wait()
			st := r.Status()
			testkit.MustHold(t, st.InFlightBytes == 0 && st.Failing == nil, st)
			r.stop()
		})
	})
}

// TestFailedRepairStep: if any call of a repair fails, the next attempt begins again with the first step.
func TestFailedRepairStep(t *testing.T) {
	for name, set := range map[string]func(*faulty) *atomic.Bool{
		"truncate": func(f *faulty) *atomic.Bool { return &f.truncate },
		"syncFile": func(f *faulty) *atomic.Bool { return &f.syncFile },
		"openLog":  func(f *faulty) *atomic.Bool { return &f.openLog },
		"remove":   func(f *faulty) *atomic.Bool { return &f.remove },
	} {
		for _, segment := range []int{1, 200, 1 << 20} {
			t.Run(fmt.Sprintf("%s, segments of %d", name, segment), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &faulty{t: t}
					r := mustRun(t, Options{SegmentBytes: segment, Hooks: f.hooks()})
					r.mustPut("create", "kept")
					f.write.Store(true)
					set(f).Store(true)
					a := r.put(Bulk, "create", "lost")
					testkit.MustHold(t, errors.Is(a.err, ErrNotStored) || errors.Is(a.err, ErrUnknown), a)
					f.write.Store(false)
					time.Sleep(time.Minute)
					set(f).Store(false)
					time.Sleep(maxRepairWait)
					synctest.Wait()
					testkit.NoError(t, r.Health())
					r.mustPut("create", "after")
					r.stop()
				})
			})
		}
	}
}

// TestFailedRoll: a new volume that could not be completed is removed, and the journal continues in the old volume.
func TestFailedRoll(t *testing.T) {
	for name, set := range map[string]func(*faulty) *atomic.Bool{
		"syncFile": func(f *faulty) *atomic.Bool { return &f.syncFile },
		"openLog":  func(f *faulty) *atomic.Bool { return &f.openLog },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faulty{t: t}
				r := mustRun(t, Options{VolumeBytes: 150, Hooks: f.hooks()})
				r.mustPut("create", "first")
				set(f).Store(true)
				for r.Health() == nil {
					r.put(Bulk, "create", "more")
					synctest.Wait()
				}
				set(f).Store(false)
				time.Sleep(maxRepairWait)
				synctest.Wait()
				for range 5 {
					r.mustPut("create", "after")
				}
				n := len(r.Volumes())
				testkit.MustHold(t, n >= 3, n)
				r.stop()
			})
		})
	}
}

// TestShortWrite uses a real failure: the kernel ends a write in the middle of an entry, because the file has reached its
// size limit. tidwall/wal leaves the bytes in the file. A second write of the same index would return nil, and Read would
// return the old data.
func TestShortWrite(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old unix.Rlimit
	testkit.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	limit := func(n uint64) {
		testkit.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: old.Max}))
	}
	defer limit(old.Cur)
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Options{})
		body := strings.Repeat("0123456789", 100_000)
		for range 3 {
			r.mustPut("create", body)
		}
		limit(4e6) // far above what the testing package writes to its own files; in the middle of the next entry; the mark goes to a new segment
		a := r.put(Bulk, "create", body+body+body+body)
		synctest.Wait()
		limit(old.Cur)
		testkit.MustHold(t, errors.Is(a.err, ErrNotStored) && errors.Is(a.err, unix.EFBIG) && r.Health() == nil, a, r.Health())
		r.mustPut("create", "after")
		r.stop()
	})
}

// TestForeignWrite: if another program has written to the segment, the next group fails and is not acknowledged.
func TestForeignWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "")
		time.Sleep(time.Second)
		f := testkit.Must(os.OpenFile(filepath.Join(r.o.Dir, seqName(1), seqName(1)), os.O_APPEND|os.O_WRONLY, 0))(t)
		testkit.Must(f.WriteString(strings.Repeat("something", 100)))(t)
		testkit.NoError(t, f.Close())
		a := r.put(Bulk, "create", "")
		testkit.MustHold(t, errors.Is(a.err, ErrNotStored), a)
		r.mustPut("create", "")
		r.stop()
	})
}

// TestModel runs random commands, failures, restarts and cuts. It compares the journal with a list of the answers.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		stored := make(map[uint64]string) // seq -> body of the commands that were answered with nil
		never := make(map[string]bool)    // bodies of the commands that were answered with ErrNotStored
		last, first := uint64(0), uint64(1)
		for round := range 12 {
			f := &faulty{t: t}
			r := mustRun(t, Options{Dir: dir, Applied: last, SegmentBytes: 1 + rng.IntN(600), VolumeBytes: 1 + int64(rng.IntN(4000)), Hooks: f.hooks()})
			for i := range 40 {
				switch rng.IntN(12) {
				case 0:
					f.write.Store(!f.write.Load())
				case 1:
					f.sync.Store(!f.sync.Load())
				case 2:
					f.truncate.Store(!f.truncate.Load())
				case 3:
					time.Sleep(time.Duration(rng.IntN(int(maxRepairWait))))
				case 4:
					testkit.Must(r.Cut(last, int64(rng.IntN(3000))))(t)
					first = r.First()
				}
				body := fmt.Sprintf("%d/%d%s", round, i, strings.Repeat("x", rng.IntN(500)))
				switch a := r.put(Lane(rng.IntN(2)), "create", body); {
				case a.err == nil:
					stored[a.seq], last = body, a.seq
				case errors.Is(a.err, ErrUnknown):
				case errors.Is(a.err, ErrNotStored), errors.Is(a.err, ErrFailed):
					never[body] = true
				default:
					t.Fatal(a)
				}
			}
			for _, on := range []*atomic.Bool{&f.write, &f.sync, &f.truncate} {
				on.Store(false)
			}
			time.Sleep(2 * maxRepairWait)
			synctest.Wait()
			r.stop()
			seen := make(map[uint64]bool)
			for rec, err := range Scan(dir, 1) {
				testkit.NoError(t, err)
				testkit.MustHold(t, !never[string(rec.Body)], string(rec.Body), "was answered as not stored")
				want, ok := stored[rec.Seq]
				testkit.MustHold(t, !ok || want == string(rec.Body), "seq", rec.Seq, "holds", string(rec.Body), "not", want)
				seen[rec.Seq] = true
			}
			for seq := range stored {
				testkit.MustHold(t, seq < first || seen[seq], "seq", seq, "was answered and is gone")
			}
			last = r.Synced()
		}
	})
}

// killDir is set in the process that TestKill starts: this test binary, running as a writer.
const killDir = "DAYBOOK_JOURNAL_KILL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		if err := writeUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes from several goroutines. It prints a line with the seq and the body length for every
// acknowledged command, until its standard output is closed or it is killed.
func writeUntilKilled(dir string) error {
	last := uint64(0)
	if rep, err := Verify(dir); err == nil {
		last = rep.Synced // a cursor that the journal proves, as a store has
	}
	j, err := Open(Options{Dir: dir, SegmentBytes: 20_000, VolumeBytes: 100_000, Applied: last})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 9)
	go func() { ended <- j.Run(ctx) }()
	var mu sync.Mutex
	for w := range 8 {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(w)))
			for {
				n := rng.IntN(5000)
				a := make(chan answer, 1)
				err := j.Propose(ctx, &Proposal{Lane: Lane(w % 2), Verb: "create", Body: []byte(strings.Repeat("k", n)),
					Done: func(seq uint64, at int64, err error) { a <- answer{seq, at, err} }})
				if err != nil {
					ended <- err
					return
				}
				got := <-a
				if got.err == nil {
					mu.Lock()
					_, got.err = fmt.Printf("%d %d\n", got.seq, n)
					mu.Unlock()
				}
				if got.err != nil {
					ended <- got.err
					return
				}
			}
		}()
	}
	err = <-ended
	cancel()
	return err
}

// TestKill repeatedly kills a writing process. It checks that no command that was answered as stored is missing. The page
// cache survives the process, so this tests the start but not the fsyncs, which other tests cover.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	acked := make(map[uint64]int)
	for round := range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killDir+"="+dir)
		cmd.Stderr = os.Stderr
		out := testkit.Must(cmd.StdoutPipe())(t)
		testkit.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			a, b, ok := strings.Cut(lines.Text(), " ")
			seq, err := strconv.ParseUint(a, 10, 64)
			size, err2 := strconv.Atoi(b)
			if !ok || err != nil || err2 != nil {
				break // the kill has cut this line
			}
			acked[seq] = size
			if n == 50+round*40 {
				testkit.NoError(t, cmd.Process.Kill())
			}
		}
		testkit.MustHold(t, cmd.Wait() != nil, "the writer ended by itself")
		expected := len(acked)
		j := mustOpen(t, Options{Dir: dir})
		for r, err := range j.Records(1) {
			testkit.NoError(t, err)
			if size, ok := acked[r.Seq]; ok {
				testkit.MustHold(t, r.Verb == "create" && len(r.Body) == size, "round", round, "seq", r.Seq, "is a",
					r.Verb, "of", len(r.Body), "bytes, acknowledged were", size)
				expected--
			}
		}
		testkit.MustEqual(t, expected, 0, "round", round, "acknowledged records are gone")
		testkit.NoError(t, j.Close())
	}
	testkit.MustHold(t, len(acked) >= 1000, len(acked))
}
