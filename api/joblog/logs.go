package joblog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	// MaxBytes is how much of a log is kept.
	MaxBytes = 256 << 10
	// spareBytes is how much longer a log may become before its beginning is removed, so that not every part moves it.
	spareBytes    = 64 << 10
	maxTotalBytes = 64 << 20
	maxLogs       = 1000
	// keptAfterEnd is how long the log of a job is kept after its end, for readers that come just then.
	keptAfterEnd = time.Minute
	tidyEvery    = 10 * time.Second
	// pieceBytes is how much a reader gets at once.
	pieceBytes = 32 << 10
)

// Logs has the logs of the jobs that run. Its methods may be called from many goroutines.
type Logs struct {
	mu    sync.Mutex
	jobs  map[job.ID]*jobLog
	bytes int           // of memory of all texts
	turn  uint64        // counts calls of Append
	begun chan struct{} // closed when there is a new log
	sums  Stats         // but Logs and Bytes
}

// Stats are what the logs have now, and what they got since the start.
type Stats struct {
	Logs, Bytes   int   // Bytes are of memory
	AppendedBytes int64 // that arrived and were not there already
	MissingBytes  int64 // that did not arrive, before others that did
	Dropped       int64 // logs that were dropped to make room
}

// jobLog is the log of a job.
type jobLog struct {
	claim   job.ID        // of the run
	end     int64         // offset in what the run has printed
	text    []byte        // the end of it, with lines for what is missing
	place   int64         // of the end of text: how much it would be if nothing was removed from its beginning
	changed chan struct{} // closed when there is more
	used    uint64        // turn of the last part
	job     End           // of the job
	endedAt time.Time     // when it was seen first that the job has ended; zero: never
}

// End says when a job has ended.
type End interface {
	Done() <-chan struct{}
	Stop() // nobody waits for it any more
}

// New returns no logs.
func New() *Logs { return &Logs{jobs: map[job.ID]*jobLog{}, begun: make(chan struct{})} }

// Append adds a part of what a run of a job has printed. offset is its place. A part that is there already is left out,
// and one that does not follow makes a line that counts the missing bytes. Append stops end when it is needed no more. The
// caller has begun to wait before it has seen that the job runs.
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
		p = p[min(-missing, int64(len(p))):] // the rest is there already
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

// add adds text to a log, and tells its readers. l.mu is held.
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

// Reader returns a reader, which begins with what is kept.
func (l *Logs) Reader(id job.ID) *Reader { return &Reader{logs: l, id: id} }

// Next returns the next part of the log, and whether there is a log. Without a part, changed is closed when there may be
// one.
func (r *Reader) Next() (text []byte, changed <-chan struct{}, exists bool) {
	r.logs.mu.Lock()
	defer r.logs.mu.Unlock()
	j := r.logs.jobs[r.id]
	if j == nil || r.logs.age(r.id, j, time.Now()) {
		return nil, r.logs.begun, false
	}
	if j != r.log { // the one before was dropped
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

// Stats returns what the logs have now, and what they got.
func (l *Logs) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sums
	s.Logs, s.Bytes = len(l.jobs), l.bytes
	return s
}
