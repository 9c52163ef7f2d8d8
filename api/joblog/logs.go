package joblog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	// MaxBytes is the length of the kept part of a log.
	MaxBytes = 256 << 10
	// spareBytes is the length by which a log may exceed MaxBytes before Append removes its beginning. Without it,
	// every new part would move the whole text.
	spareBytes    = 64 << 10
	maxTotalBytes = 64 << 20
	maxLogs       = 1000
	// keptAfterEnd is the time for which a log is kept after the end of its job, for readers that arrive just then.
	keptAfterEnd = time.Minute
	tidyEvery    = 10 * time.Second
	// pieceBytes is the longest part that a reader gets from one call.
	pieceBytes = 32 << 10
)

// Logs has the logs of running jobs. Its methods may be called from many goroutines.
type Logs struct {
	mu    sync.Mutex
	jobs  map[job.ID]*jobLog
	bytes int           // memory of all texts
	turn  uint64        // counts calls of Append
	begun chan struct{} // closed when there is a new log
	sums  Stats         // except Logs and Bytes
}

// Stats are the current size of the logs, and counts since the start.
type Stats struct {
	Logs, Bytes   int   // Bytes counts memory
	AppendedBytes int64 // received, without repeated bytes
	MissingBytes  int64 // skipped before received bytes
	Dropped       int64 // logs dropped to make room
}

// jobLog is the log of a job.
type jobLog struct {
	claim   job.ID        // of the run
	end     int64         // offset in the output of the run
	text    []byte        // its last part, with lines for missing bytes
	place   int64         // length that text would have if its beginning had never been removed
	changed chan struct{} // closed when text was added
	used    uint64        // turn of the last part
	job     End           // of the job
	endedAt time.Time     // when tidy or Append first saw that the job has ended; zero: never
}

// End reports the end of a job.
type End interface {
	Done() <-chan struct{}
	Stop() // the caller no longer waits
}

// New returns an empty Logs.
func New() *Logs { return &Logs{jobs: map[job.ID]*jobLog{}, begun: make(chan struct{})} }

// Append adds a part of the output of a job's run. offset is its place in the output. Append ignores bytes that it
// already has, and adds a line that counts the missing bytes if there is a gap. It stops end once it no longer needs
// it. The caller must have begun to wait for end before it saw that the job is running. Otherwise the end of the job
// could be missed.
func (l *Logs) Append(id, claim job.ID, offset int64, p []byte, end End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	j := l.jobs[id]
	if j == nil {
		j = &jobLog{claim: claim, changed: make(chan struct{}), job: end}
		l.jobs[id] = j
		close(l.begun)
		l.begun = make(chan struct{})
	} else {
		select {
		case <-j.job.Done(): // the job has ended, and runs again
			j.job.Stop()
			j.job, j.endedAt = end, time.Time{}
		default:
			end.Stop()
		}
	}
	j.used = l.turn
	if j.claim != claim {
		l.add(j, []byte("\n[the job runs again]\n"))
		j.claim, j.end = claim, 0
	}
	if missing := offset - j.end; missing > 0 {
		l.sums.MissingBytes += missing
		l.add(j, fmt.Appendf(nil, "\n[%d bytes are missing here]\n", missing))
		j.end = offset
	} else {
		p = p[min(-missing, int64(len(p))):] // earlier parts had the beginning
	}
	if len(p) > 0 {
		l.sums.AppendedBytes += int64(len(p))
		l.add(j, p)
		j.end += int64(len(p))
	}
	for l.bytes > maxTotalBytes || len(l.jobs) > maxLogs {
		l.dropOldest()
	}
}

// add adds text to a log, and wakes its readers. l.mu is held.
func (l *Logs) add(j *jobLog, text []byte) {
	l.bytes -= cap(j.text)
	j.place += int64(len(text))
	j.text = append(j.text, text[max(0, len(text)-MaxBytes):]...)
	if len(j.text) > MaxBytes+spareBytes {
		j.text = append(make([]byte, 0, MaxBytes+spareBytes), j.text[len(j.text)-MaxBytes:]...)
	}
	l.bytes += cap(j.text)
	close(j.changed)
	j.changed = make(chan struct{})
}

// dropOldest drops the log that has waited longest for more. l.mu is held.
func (l *Logs) dropOldest() {
	var oldest job.ID
	used := l.turn + 1
	for id, j := range l.jobs {
		if j.used < used {
			oldest, used = id, j.used
		}
	}
	l.drop(oldest)
	l.sums.Dropped++
}

// drop drops a log. l.mu is held.
func (l *Logs) drop(id job.ID) {
	j := l.jobs[id]
	l.bytes -= cap(j.text)
	delete(l.jobs, id)
	close(j.changed)
	j.job.Stop()
}

// Reader reads the log of a job. One goroutine uses it.
type Reader struct {
	logs  *Logs
	id    job.ID
	log   *jobLog // that was read last; nil before the first text
	place int64
}

// Reader returns a reader that begins with the kept text.
func (l *Logs) Reader(id job.ID) *Reader { return &Reader{logs: l, id: id} }

// Next returns the next part of the log, and whether there is a log. If it returns no part, it returns a channel that
// is closed when there may be one.
func (r *Reader) Next() (text []byte, changed <-chan struct{}, exists bool) {
	r.logs.mu.Lock()
	defer r.logs.mu.Unlock()
	j := r.logs.jobs[r.id]
	if j == nil || r.logs.age(r.id, j, time.Now()) {
		return nil, r.logs.begun, false
	}
	if j != r.log { // the previous log was dropped
		r.log, r.place = j, j.place-int64(min(len(j.text), MaxBytes))
	}
	if missed := j.place - int64(len(j.text)) - r.place; missed > 0 {
		r.place += missed
		return fmt.Appendf(nil, "\n[%d bytes came faster than they were read]\n", missed), nil, true
	}
	if r.place == j.place {
		return nil, j.changed, true
	}
	rest := j.text[len(j.text)-int(j.place-r.place):]
	text = append([]byte(nil), rest[:min(len(rest), pieceBytes)]...)
	r.place += int64(len(text))
	return text, nil, true
}

// Run drops logs of jobs that have ended, until ctx ends.
func (l *Logs) Run(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			l.tidy(now)
		}
	}
}

// tidy drops the logs of jobs that have ended keptAfterEnd ago.
func (l *Logs) tidy(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, j := range l.jobs {
		l.age(id, j, now)
	}
}

// age drops the log of a job that has ended keptAfterEnd ago, and reports whether it did. l.mu is held.
func (l *Logs) age(id job.ID, j *jobLog, now time.Time) bool {
	select {
	case <-j.job.Done():
	default:
		return false
	}
	if j.endedAt.IsZero() {
		j.endedAt = now
	}
	if now.Sub(j.endedAt) < keptAfterEnd {
		return false
	}
	l.drop(id)
	return true
}

// Stats returns the current size of the logs, and counts since the start.
func (l *Logs) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sums
	s.Logs, s.Bytes = len(l.jobs), l.bytes
	return s
}
