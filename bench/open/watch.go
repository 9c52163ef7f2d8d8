package main

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/daybookq/daybook/internal/load"
)

// watch observes the machine during a run.
type watch struct {
	stop        context.CancelFunc
	group       sync.WaitGroup
	err         error
	disk, wakes *observations
}

// observation is one observation: an fsync, or a thread that woke up late.
type observation struct {
	at   time.Time
	took time.Duration
}

// observations keeps the slow ones.
type observations struct {
	all  *load.Latencies
	slow []observation
}

// slowFrom is the shortest time of an observation that is kept, and mostSlow bounds their number.
const (
	slowFrom = 5 * time.Millisecond
	mostSlow = 100_000
)

func (o *observations) add(at time.Time, took time.Duration) {
	o.all.Add(took)
	if took >= slowFrom && len(o.slow) < mostSlow {
		o.slow = append(o.slow, observation{at, took})
	}
}

// longest returns the longest observation that overlaps a time.
func (o *observations) longest(from, till time.Time) (most time.Duration) {
	for _, s := range o.slow {
		if s.at.Before(till) && s.at.Add(s.took).After(from) {
			most = max(most, s.took)
		}
	}
	return most
}

const (
	fsyncEvery = 25 * time.Millisecond
	wakeEvery  = 5 * time.Millisecond
)

// startWatch begins to observe the disk of a directory, and the processors.
func startWatch(ctx context.Context, dir string) (*watch, error) {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{stop: stop, disk: &observations{all: load.NewLatencies()}, wakes: &observations{all: load.NewLatencies()}}
	w.group.Go(func() {
		w.err = load.Disk{Dir: dir, Every: fsyncEvery}.Run(ctx, func(s load.Sync) { w.disk.add(s.At, s.Took) })
	})
	w.group.Go(func() {
		// A separate thread sleeps in the kernel, so that it measures the kernel's scheduler, not Go's.
		runtime.LockOSThread()
		for ctx.Err() == nil {
			began := time.Now()
			load.Sleep(wakeEvery) // a signal shortens it, which is no delay
			w.wakes.add(began.Add(wakeEvery), time.Since(began)-wakeEvery)
		}
	})
	return w, nil
}

func (w *watch) end() error {
	w.stop()
	w.group.Wait()
	return w.err
}

// stall is a stall of a run, with the state of the machine at that time.
type stall struct {
	At      float64 `json:"at_s"`
	Length  float64 `json:"length_ms"`
	Longest float64 `json:"longest_ms"`
	Calls   int     `json:"calls"`
	Disk    float64 `json:"disk_ms"` // the longest fsync of the plain file that overlaps it; 0 if all took less than 5 ms
	Wake    float64 `json:"wake_ms"` // the longest delay of the thread
}

func (w *watch) explain(o *load.Outcome) (all []stall) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for _, s := range o.Stalls {
		from := o.Start.Add(s.Start)
		till := from.Add(s.Length)
		all = append(all, stall{s.Start.Seconds(), ms(s.Length), ms(s.Longest), s.Calls, ms(w.disk.longest(from, till)), ms(w.wakes.longest(from, till))})
	}
	return all
}

// diskAlone measures the disk while no run is in progress.
func diskAlone(dir string) (load.Summary, error) {
	all := load.NewLatencies()
	err := load.Disk{Dir: dir, For: time.Second}.Run(context.Background(), func(s load.Sync) { all.Add(s.Took) })
	return all.Summary(), err
}
