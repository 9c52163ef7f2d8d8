package crash

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// trial is one server with one data directory, its users, and their knowledge.
type trial struct {
	name   string
	server *daybooktest.Process
	tools  string // the real binary
	h      *history
	u      *user
	log    testkit.Log

	errands  []*errands
	waitIdle bool // finish waits until --queue-idle has deleted the idle queues of the errands
}

// maxWait is how long a lane waits for anything: a start, an answer, the next sign of progress. It decides nothing about
// the server: if something takes longer, the result is undecided.
const maxWait = 4 * time.Minute

// errUndecided is in a lane's error if the lane could not find out whether the server keeps its promises.
var errUndecided = errors.New("undecided, machine too slow (or the server hangs)")

func undecided(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errUndecided}, args...)...)
}

func newTrial(name, binary, data string) (*trial, error) {
	address, err := daybooktest.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &trial{
		name: name, tools: binary, h: newHistory(),
	}
	s.server = &daybooktest.Process{Binary: binary, Data: data, Listen: address, Log: &s.log, Args: []string{
		"--log-level", "info", "--queue-idle", queueIdle.String(), "--runner-heartbeat", runnerHeartbeat.String(), "--stream-heartbeat", streamHeartbeat.String(),
	}}
	s.u = newUser(s.h, s.server.URL(), name, 32)
	return s, nil
}

// ended reports whether the process has ended.
func (s *trial) ended() bool {
	select {
	case <-s.server.Done():
		return true
	default:
		return false
	}
}

// says returns an error unless the server's log has one of the words, which say why it ended.
func (s *trial) says(words ...string) error {
	if said := s.log.String(); slices.ContainsFunc(words, func(word string) bool { return strings.Contains(said, word) }) {
		return nil
	}
	return errors.New("the server ended without a reason in its log")
}

// launch starts the process. From now on leases may run out.
func (s *trial) launch() error {
	s.h.serverStarted()
	if err := s.server.Launch(); err != nil {
		s.h.serverEnded()
		return err
	}
	return nil
}

func (s *trial) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	if err := s.server.Ready(ctx); ctx.Err() != nil {
		return undecided("the server is not ready after %v: %v\n%s", maxWait, err, &s.log)
	} else if err != nil {
		return fmt.Errorf("start: %w\n%s", err, &s.log)
	}
	return nil
}

func (s *trial) start() error {
	if err := s.launch(); err != nil {
		return err
	}
	return s.ready()
}

// kill ends the process with SIGKILL, if it has not ended yet.
func (s *trial) kill() error {
	err := s.server.Kill()
	s.h.serverEnded()
	return err
}

func (s *trial) stop() error {
	err := s.server.Stop()
	s.h.serverEnded()
	if err != nil {
		return fmt.Errorf("stop: %w\n%s", err, &s.log)
	}
	return nil
}

// drain completes all jobs.
func (s *trial) drain(seed uint64) error {
	c := newCrowd(s.u, load{}, s.name+"-drain", seed)
	for i := range 4 {
		c.all.Go(func() { c.run(i, true) })
	}
	defer c.end()
	return s.awaitEnds()
}

// awaitEnds waits until all jobs have ended. Leases are a few seconds and backoffs shorter, so the number of unfinished jobs always
// falls.
func (s *trial) awaitEnds() error {
	least, since := int64(math.MaxInt64), time.Now()
	for ; ; time.Sleep(20 * time.Millisecond) {
		left, err := s.u.unfinished(context.Background())
		switch {
		case err == nil && left == 0:
			return nil
		case err == nil && left < least:
			least, since = left, time.Now()
		case time.Since(since) > maxWait:
			return undecided("no job ended for %v: %d are left, %v", maxWait, left, err)
		}
	}
}

// readBack reads each job that was acknowledged or seen, and compares their number with the server's count.
func (s *trial) readBack() error {
	if err := s.u.readNext(context.Background()); err != nil {
		return err
	}
	var known []*post
	unknown := int64(0)
	s.h.mu.Lock()
	for _, p := range s.h.posts {
		if p.first.IsZero() {
			unknown += int64(p.lines)
		} else {
			known = append(known, p)
		}
	}
	s.h.mu.Unlock()
	ids := make(chan job.ID, 100)
	var readers sync.WaitGroup
	var failure atomic.Pointer[error]
	var total, lost, unfinished atomic.Int64
	for range 6 {
		readers.Go(func() {
			for id := range ids {
				d, found, err := s.u.get(context.Background(), id)
				switch {
				case err != nil: // it is unknown whether the job exists
					failure.Store(&err)
				case !found:
					lost.Add(1)
				case d != nil && d.Status != "completed" && d.Status != "failed" && d.Status != "cancelled":
					unfinished.Add(1)
				}
				total.Add(1)
			}
		})
	}
	for _, p := range known {
		for line := range p.lines {
			ids <- p.id(line)
		}
	}
	close(ids)
	readers.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	jobs, err := s.u.counts(context.Background())
	if err != nil {
		return err
	}
	counted := int64(0)
	for _, n := range jobs {
		counted += n
	}
	s.h.tally(func(t *tally) { t.Lost += int(lost.Load()) })
	if n := lost.Load(); n > 0 {
		s.h.problem("%d jobs are lost", n)
	}
	if n := unfinished.Load(); n > 0 {
		s.h.problem("%d jobs are unfinished after the drain", n)
	}
	if counted < total.Load() || counted > total.Load()+unknown {
		s.h.problem("the server counts %d jobs; %d are known, and at most %d more may be", counted, total.Load(), unknown)
	}
	return nil
}

// tool runs a verb of the binary on the data directory.
func (s *trial) tool(args ...string) error {
	out, err := exec.Command(s.tools, append(args, "--data", s.server.Data)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return nil
}

// settle finishes the errands, ends all jobs with drain, reads everything back, calls verify, stops the server, and checks its data. The
// server must run, and the crowd must have ended.
func (s *trial) settle(drain, verify func() error) error {
	check := func() error { return errors.Join(s.tool("check"), s.tool("journal", "verify")) }
	for _, step := range []func() error{s.finishErrands, drain, s.checkErrands, s.readBack, verify, s.stop, check} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// finish settles everything, and checks the history.
func (s *trial) finish(seed uint64) error {
	if err := s.settle(func() error { return s.drain(seed) }, func() error { return nil }); err != nil {
		return err
	}
	impossible, tooLong := s.h.check()
	var errs []error
	for _, problem := range s.h.wrong {
		errs = append(errs, errors.New(problem))
	}
	for _, history := range impossible {
		errs = append(errs, errors.New("no order of these requests explains their answers: "+history))
	}
	if n := s.h.count.Undecided; n > 0 {
		errs = append(errs, undecided("%d histories could not be checked within %v each: %s", n, checkTime, strings.Join(tooLong, "\n")))
	}
	return errors.Join(errs...)
}
