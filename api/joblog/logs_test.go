package joblog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

func id(n int) job.ID { return job.NewID(1, uint64(n), 0) }

// rest reads everything that a reader gets without waiting.
func rest(r *Reader) string {
	var b strings.Builder
	for {
		text, _, _ := r.Next()
		if len(text) == 0 {
			return b.String()
		}
		b.Write(text)
	}
}

// TestAppend: parts that are repeated, missing or of another run.
func TestAppend(t *testing.T) {
	l := New()
	r := l.Reader(id(1))
	_, changed, exists := r.Next()
	testkit.Holds(t, !exists && changed != nil, "there is a log")
	l.Append(id(1), id(10), 0, []byte("abc"), newEnd())
	_, changed, _ = l.Reader(id(1)).Next()
	testkit.Holds(t, changed == nil, "there is text, and nothing to read")
	want := "abc"
	for _, c := range []struct {
		claim  int
		offset int64
		text   string
		adds   string
	}{
		{10, 0, "abc", ""},
		{10, 1, "bc", ""},
		{10, 2, "cde", "de"},
		{10, 5, "f", "f"},
		{10, 10, "k", "\n[4 bytes are missing here]\nk"},
		{11, 0, "again", "\n[the job runs again]\nagain"},
		{11, 5, "", ""},
	} {
		l.Append(id(1), id(c.claim), c.offset, []byte(c.text), newEnd())
		want += c.adds
		testkit.Equal(t, rest(l.Reader(id(1))), want, "after", c)
	}
	s := l.Stats()
	testkit.Holds(t, s.AppendedBytes == int64(len("abc"+"de"+"f"+"k"+"again")) && s.MissingBytes == 4 && s.Dropped == 0, s)
	testkit.Equal(t, rest(r), want, "a reader from the beginning")
	_, changed, exists = r.Next()
	testkit.MustHold(t, exists && changed != nil, "there is nothing to wait for")
	l.Append(id(1), id(11), 5, []byte("more"), newEnd())
	<-changed
	testkit.Equal(t, rest(r), "more")
}

// TestReadersAreToldOfLines: a waiting reader is woken for lines that Append adds, even if the part itself is empty.
func TestReadersAreToldOfLines(t *testing.T) {
	for _, c := range []struct {
		claim  int
		offset int64
		want   string
	}{
		{11, 0, "\n[the job runs again]\n"},
		{10, 10, "\n[7 bytes are missing here]\n"},
		{11, 2, "\n[the job runs again]\n\n[2 bytes are missing here]\n"},
	} {
		l := New()
		l.Append(id(1), id(10), 0, []byte("abc"), newEnd())
		r := l.Reader(id(1))
		rest(r)
		_, changed, _ := r.Next()
		l.Append(id(1), id(c.claim), c.offset, nil, newEnd())
		select {
		case <-changed:
		default:
			t.Errorf("%+v: the reader is not told", c)
		}
		testkit.Equal(t, rest(r), c.want, c)
		_, changed, exists := r.Next()
		testkit.Holds(t, exists && changed != nil, c, "there is nothing to wait for")
	}
}

// TestBounds: a log, all logs and their number are bounded for any number of writers.
func TestBounds(t *testing.T) {
	l := New()
	slow := l.Reader(id(0))
	l.Append(id(0), id(1), 0, []byte("first"), newEnd())
	slow.Next()
	chance, at := rand.New(rand.NewPCG(1, 2)), int64(5)
	for range 50 {
		p := bytes.Repeat([]byte("x"), 1+chance.IntN(2*MaxBytes))
		l.Append(id(0), id(1), at, p, newEnd())
		at += int64(len(p))
		n := l.Stats().Bytes
		testkit.MustHold(t, n == cap(l.jobs[id(0)].text) && n <= 2*(MaxBytes+spareBytes), l.Stats(), cap(l.jobs[id(0)].text), "bytes of memory")
	}
	testkit.Equal(t, len(rest(l.Reader(id(0)))), MaxBytes, "bytes are kept")
	text := rest(slow)
	var missed int64
	testkit.Must(fmt.Sscanf(text, "\n[%d bytes came faster", &missed))(t)
	testkit.Holds(t, int64(strings.Count(text, "x"))+missed == at-5, missed, "missed and", strings.Count(text, "x"), "read of", at-5)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for n := range 100 {
				l.Append(id(1+w*1000+n), id(1), 0, make([]byte, MaxBytes), newEnd())
			}
		})
	}
	writers.Wait()
	memory := 0
	for _, j := range l.jobs {
		memory += cap(j.text)
	}
	if s := l.Stats(); s.Logs > maxLogs || s.Bytes > maxTotalBytes || s.Bytes < maxTotalBytes/2 || s.Dropped == 0 || s.Bytes != memory {
		t.Errorf("%+v, %d bytes of memory", s, memory)
	}
	for n := range 3 * maxLogs {
		l.Append(id(10_000+n), id(1), 0, []byte("x"), newEnd())
	}
	testkit.Holds(t, l.Stats().Logs == maxLogs, l.Stats())
	testkit.Equal(t, rest(l.Reader(id(10_000+3*maxLogs-1))), "x", "the newest log")
}

// TestTidy: a log is kept for a minute after the end of its job, and wakes its readers when it is dropped. Afterwards,
// no wait for the end of the job remains.
func TestTidy(t *testing.T) {
	l, now := New(), time.Unix(1, 0)
	first, second, third := newEnd(), newEnd(), newEnd()
	l.Append(id(1), id(10), 0, []byte("a"), first)
	l.Append(id(1), id(10), 1, []byte("a"), second)
	l.Append(id(2), id(20), 0, []byte("b"), third)
	testkit.Equal(t, first.stopped, 0, second.stopped)
	testkit.Equal(t, second.stopped, 1, first.stopped)
	r := l.Reader(id(1))
	rest(r)
	_, changed, _ := r.Next()
	l.tidy(now)
	close(first.done)
	l.tidy(now)
	l.tidy(now.Add(keptAfterEnd - 1))
	testkit.Equal(t, l.Stats().Logs, 2, l.Stats())
	l.tidy(now.Add(keptAfterEnd))
	s := l.Stats()
	testkit.Holds(t, s.Logs == 1 && s.Bytes == cap(l.jobs[id(2)].text), s)
	<-changed
	_, _, exists := r.Next()
	testkit.Holds(t, !exists && first.stopped == 1 && third.stopped == 0, "the log is there", exists, first.stopped, third.stopped)
}

// end is the end of a job.
type end struct {
	done    chan struct{}
	stopped int
}

func newEnd() *end { return &end{done: make(chan struct{})} }

func (e *end) Done() <-chan struct{} { return e.done }
func (e *end) Stop()                 { e.stopped++ }
