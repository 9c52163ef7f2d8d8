package crash

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestReadOnly makes the server's disk read-only under load, as a kernel does after an error, and writable again. A real
// remount is refused while files are open for writing. So proof/powerfs answers as a read-only file system would.
func TestReadOnly(t *testing.T) {
	l := newLane(t, 6)
	rounds := inFull(12, 1)
	l.readOnly(rounds, func(*trial) {})
	if *full { // with small files the store flushes all the time, so the disk becomes read-only during a flush
		l.readOnly(rounds, l.useSmallFiles)
		rounds *= 2
	}
	l.report(fmt.Sprint(rounds, " times a read-only disk"))
}

func (l *lane) readOnly(rounds int, prepare func(*trial)) {
	f, dir := l.powerFS()
	f.SetSize(1 << 30)
	s := l.newTrial("readonly", filepath.Join(dir, "data"))
	s.u.badDisk = true
	prepare(s)
	l.must(s, s.start())
	c := newCrowd(s.u, standardLoad, "r", l.rng.Uint64())
	defer c.end()
	ended, reads, served := 0, 0, 0
	for round := range rounds {
		l.awaitLoad(s, c, 20)
		if round%4 == 2 { // during a flush of the store, when Pebble can neither continue nor undo it
			f.ReadOnlyAt("MANIFEST")
			select {
			case <-s.server.Done():
			case <-time.After(l.between(6*time.Second, 7*time.Second)): // the store flushes every 5 s
			}
		}
		f.SetReadOnly(true)
		hold := l.between(time.Second, 2*time.Second)
		if round%2 == 1 {
			hold = l.between(5*time.Second, 9*time.Second) // longer than the interval of the store's flushes
		}
		refused := false
		for until := time.Now().Add(hold); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			if s.ended() {
				continue
			}
			r, err := s.u.create(c.ctx, &post{tag: fmt.Sprintf("ro-%d-%d", round, s.h.now()), lines: 1, maxAttempts: 3, leaseMs: minLeaseMs})
			if err == nil && r.ok() {
				l.must(s, fmt.Errorf("a create was acknowledged while the disk was read-only"))
			}
			if err == nil && r.status == http.StatusServiceUnavailable {
				refused = true
			} else if err == nil && r.status != 0 {
				l.must(s, fmt.Errorf("a create on a read-only disk was answered %d %s", r.status, r.problem.Code))
			}
			r, err = s.u.send(c.ctx, http.MethodGet, "/queues", "", nil)
			if reads++; err == nil && r.status == http.StatusOK {
				served++
			}
		}
		f.SetReadOnly(false)
		if s.ended() {
			ended++
		} else if !refused {
			l.must(s, fmt.Errorf("no create was refused with 503 while the disk was read-only"))
		}
		l.awaitService(s, c, "read-only file system", "cannot continue")
		if round%3 == 2 {
			f.Cut(l.rng.Uint64())
			l.must(s, s.kill())
			f.PowerOn()
			l.must(s, s.start())
		}
		l.progress("%d of %d rounds, the server ended in %d, %d of %d reads were served", round+1, rounds, ended, served, reads)
	}
	l.Logf("the server ended in %d of %d rounds; %d of %d reads were served while the disk was read-only", ended, rounds, served, reads)
	testkit.Holds(l, ended >= rounds || served != 0, "no read was served while the disk was read-only")
	c.end()
	l.finish(s)
}
