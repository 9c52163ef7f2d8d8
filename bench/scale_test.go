package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// The bounds with many pending jobs of 100 bytes (docs/explanation/performance.md):
const (
	scaleJobs        = 10_000_000 // or as many as DAYBOOK_SCALE says
	scaleQueues      = 100_000
	maxScaleResident = 1 << 30
	maxScaleRestart  = 3 * time.Second
	maxScaleP99Ratio = 1.5
	// maxPendingBytes and maxWrittenBytes bound the bytes of a job of 100 bytes: on the disk while it is pending, and
	// written to the disk in its life. How often compactions write a payload again depends on when they run: 310 and 400
	// bytes were measured.
	maxPendingBytes, maxWrittenBytes = 130, 450
)

// claimTimes claims and completes one job at a time, from each server in turn, so that a disturbance affects all of them.
// It returns the latencies of the claims. A server gets a new batch when it has used up the previous one.
func claimTimes(t *testing.T, loads ...*Load) []*load.Latencies {
	t.Helper()
	const claims = 5000
	times := make([]*load.Latencies, len(loads))
	for i := range times {
		times[i] = load.NewLatencies()
	}
	for n := range claims {
		for i, l := range loads {
			if n%1000 == 0 {
				fill(t, l, 1)
			}
			var claim string
			err := times[i].Time(func() (err error) { claim, err = l.Claim(context.Background(), 1); return err })
			if err == nil && claim == "" {
				err = errDry
			}
			if err == nil {
				err = l.Complete(context.Background(), claim)
			}
			testkit.NoError(t, err)
		}
	}
	return times
}

func logTimes(t *testing.T, what string, times *load.Latencies) {
	t.Helper()
	t.Logf("claim p50 %v p99 %v with %s", times.Quantile(0.5).Round(time.Microsecond), times.Quantile(0.99).Round(time.Microsecond), what)
}

// TestScale shows that a backlog of many millions of jobs changes nothing. It takes minutes and gigabytes, so it runs
// only with `make bench SET=scale`.
func TestScale(t *testing.T) {
	jobs, err := strconv.Atoi(os.Getenv("DAYBOOK_SCALE"))
	if err != nil {
		t.Skip("ten million jobs take some minutes: make bench SET=scale")
	}
	reference := NewLoad(serve(t).URL(), 16)
	defer reference.Close()
	s := serve(t)
	l := NewLoad(s.URL(), 16)
	defer l.Close()
	fill(t, reference, 1)
	start := time.Now()
	fill(t, l, jobs/1000)
	t.Logf("posted %d jobs in %v", jobs, time.Since(start).Round(time.Millisecond))
	compare := func(what string, s *daybooktest.Process, l *Load) {
		t.Helper()
		times := claimTimes(t, reference, l)
		now, peak := testkit.Must2(rig.Resident(s.Pid()))(t)
		t.Logf("%s: resident %d MiB, at its highest %d MiB", what, now>>20, peak>>20)
		logTimes(t, "about 1,000 jobs", times[0])
		logTimes(t, what, times[1])
		testkit.Holds(t, peak <= maxScaleResident, what, "resident memory reached", peak>>20, "MiB, more than", maxScaleResident>>20)
		ratio := float64(times[1].Quantile(0.99)) / float64(times[0].Quantile(0.99))
		testkit.Holds(t, ratio <= maxScaleP99Ratio, what, "claim p99 grew by a factor of", ratio, "more than", maxScaleP99Ratio)
	}
	compare(fmt.Sprint(jobs, " pending"), s, l)
	logDisk(t, s, jobs)

	testkit.NoError(t, s.Kill())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start = time.Now()
	testkit.NoError(t, s.Start(ctx))
	claim, err := l.Claim(ctx, 1)
	took := time.Since(start)
	testkit.NoError(t, err)
	testkit.MustHold(t, claim != "", "claim", claim, "after the restart")
	t.Logf("first claim %v after the start that followed SIGKILL", took.Round(time.Millisecond))
	testkit.Holds(t, took <= maxScaleRestart, "the first claim took", took, "more than", maxScaleRestart)
	compare(fmt.Sprint(jobs, " pending, after the restart"), s, l)
	if jobs > scaleJobs {
		return // with more jobs, the rest would prove no more and take long
	}

	start = time.Now()
	drain(t, l.InRuns(), 16, 100, jobs/2)
	t.Logf("claimed and completed %d in %v", jobs/2, time.Since(start).Round(time.Millisecond))
	compare(fmt.Sprint(jobs, " jobs, of which half have ended"), s, l)

	q := serve(t)
	queues := NewLoad(q.URL(), 16)
	defer queues.Close()
	fillQueues(t, queues, scaleQueues)
	compare(fmt.Sprint(scaleQueues, " queues"), q, queues)
}

// TestDiskPerJob measures the bytes of a job of 100 bytes: on the disk while it is pending, and written in its life.
func TestDiskPerJob(t *testing.T) {
	if os.Getenv("DAYBOOK_SCALE") == "" {
		t.Skip("a million jobs take a minute: make bench SET=scale")
	}
	const jobs = 2_000_000
	s := serve(t)
	l := NewLoad(s.URL(), 16)
	defer l.Close()
	before := testkit.Must(rig.Written(s.Pid()))(t)
	fill(t, l, jobs/1000)
	created := testkit.Must(rig.Written(s.Pid()))(t)
	drain(t, l.InRuns(), 16, 100, jobs)
	time.Sleep(10 * time.Second) // compactions continue
	ended := testkit.Must(rig.Written(s.Pid()))(t)
	t.Logf("written for each job: %.1f bytes when it was created, %.1f in its life", float64(created-before)/jobs, float64(ended-before)/jobs)
	each := (ended - before) / jobs
	testkit.Holds(t, each <= maxWrittenBytes, "a job of 100 bytes writes", each, "bytes, more than", maxWrittenBytes)
}

// logDisk logs the bytes that a server's pending jobs take on the disk.
func logDisk(t *testing.T, s *daybooktest.Process, jobs int) {
	t.Helper()
	total := 0.0
	for _, part := range []string{"journal", "store"} {
		n := testkit.Must(folderBytes(filepath.Join(s.Data, part)))(t)
		t.Logf("%s: %.1f bytes on the disk for each job", part, float64(n)/float64(jobs))
		total += float64(n) / float64(jobs)
	}
	testkit.Holds(t, total <= maxPendingBytes, "a pending job of 100 bytes takes", total, "bytes on the disk, more than", maxPendingBytes)
}

func folderBytes(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server has removed it
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return total, err
}

// fillQueues creates a job in each of n queues.
func fillQueues(t *testing.T, l *Load, n int) {
	t.Helper()
	const each = 500
	for first := 0; first < n; first += each {
		var body bytes.Buffer
		for i := range each {
			fmt.Fprintf(&body, "{\"type\":\"queue-%d\",\"payload\":\"%s\"}\n", first+i, works.Lines(1, 100)[:100])
		}
		testkit.NoError(t, l.post(context.Background(), "/jobs/create", "application/x-ndjson", body.Bytes(), expect(http.StatusCreated)))
	}
}
