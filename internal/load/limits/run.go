package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
)

// Runner measures a server.
type Runner struct {
	Target *works.Target
	// Local is set if the server runs on this machine. Then Dir is a directory on the server's disk, or "" to skip the
	// measurement of the disk.
	Local      bool
	Dir        string
	Processors int           // how many this process may use
	Length     time.Duration // approximate time for everything
	Progress   func(Step)
}

// Step is the start of a step of a Runner.
type Step struct {
	Text string
	Part float64 // part of Length that is over
}

// Result has all measurements.
type Result struct {
	Fsync       *load.Summary `json:"fsync"` // of a plain file; null if the disk was not measured
	RoundTripMs float64       `json:"round_trip_ms"`
	Works       []WorkResult  `json:"works"`
	Others      string        `json:"others"` // other users of the processors; "" if they used little, or unknown
}

// WorkResult has the measurements of one work.
type WorkResult struct {
	Name        string  `json:"name"`
	Title       string  `json:"title"`
	Callers     int     `json:"callers"`
	JobsPerCall int64   `json:"jobs_per_call"`
	Peak        Peak    `json:"peak"`
	Half        Half    `json:"half"`
	Limit       Verdict `json:"limit"`
}

// Peak is the result of a closed loop: each caller sends its next call when its last is answered.
type Peak struct {
	JobsPerSecond float64      `json:"jobs_per_s"`
	Latency       load.Summary `json:"latency"` // of a call; empty for the worker
	Facts         Facts        `json:"facts"`
}

// Half is the result of an open loop at about half of the peak.
type Half struct {
	JobsPerSecond float64      `json:"jobs_per_s"` // jobs that were due
	Latency       load.Summary `json:"latency"`    // from a call's due time to its answer; for the worker: from a job's creation to its end
	KeptUp        bool         `json:"kept_up"`
	Unsent        int64        `json:"unsent"`      // calls never sent, because too many were outstanding
	MostBehind    int64        `json:"most_behind"` // maximum of calls that were due but not sent
	Stalls        int          `json:"stalls_over_50_ms"`
}

// Parts of the whole time. The rest is for filling queues and warming up.
const (
	diskPart, warmPart, peakPart, halfPart = 0.04, 0.012, 0.06, 0.075

	// half is the rate of the open loop, as a part of the peak.
	half = 0.5
	// mostBulk bounds the jobs of the bulk create's peak, so that the disk does not fill up: 400 MB of payloads.
	mostBulk = 4_000_000
	// mostHalf bounds the jobs that the open loop creates or takes.
	mostHalf = 8_000_000
	// warmJobs is how many jobs a work takes during its warm-up, when its rate is unknown.
	warmJobs = 100_000
)

// Run measures the disk and each work, one after the other.
func (r *Runner) Run(ctx context.Context) (*Result, error) {
	out := &Result{}
	if r.Dir != "" {
		r.Progress(Step{"the disk: append and fsync", 0})
		syncs := load.NewLatencies()
		if err := (load.Disk{Dir: r.Dir, For: r.part(diskPart)}).Run(ctx, func(s load.Sync) { syncs.Add(s.Took) }); err != nil {
			return nil, fmt.Errorf("measure the disk: %w", err)
		}
		s := syncs.Summary()
		out.Fsync = &s
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	trip, err := r.Target.RoundTrip(ctx)
	if err != nil {
		return nil, err
	}
	out.RoundTripMs = trip.Seconds() * 1000
	all := []works.Work{works.Bulk, works.Drain, works.Worker, works.Single, works.OneAtATime}
	for i, w := range all {
		measured, err := r.work(ctx, w, out.RoundTripMs, diskPart+float64(i)*(1-diskPart)/float64(len(all)))
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", w.Name, err)
		}
		out.Works = append(out.Works, *measured)
	}
	out.Others = othersNote(out.Works)
	return out, nil
}

func (r *Runner) part(share float64) time.Duration { return time.Duration(share * float64(r.Length)) }

// work measures one work. over is the part of the whole time that is over.
func (r *Runner) work(ctx context.Context, w works.Work, roundTripMs, over float64) (*WorkResult, error) {
	r.Progress(Step{w.Title + ": warming up", over})
	perSecond, err := r.warmUp(ctx, w)
	if err != nil {
		return nil, err
	}
	length := r.part(peakPart)
	backlog := int64(perSecond * 1.3 * length.Seconds())
	if err := r.fill(ctx, w, backlog); err != nil {
		return nil, err
	}
	r.Progress(Step{w.Title + ": as fast as possible", over + 0.05})
	before, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	rate, err := r.peak(ctx, w, length, backlog)
	if err != nil {
		return nil, err
	}
	after, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	out := &WorkResult{Name: w.Name, Title: w.Title, Callers: w.Callers, JobsPerCall: w.Jobs}
	out.Peak = Peak{Latency: rate.Latencies.Summary(), Facts: r.facts(before, after), JobsPerSecond: rate.PerSecond() * float64(jobsOf(w))}
	out.Limit = verdict(out.Peak.Facts, w.Callers, rate.Calls, roundTripMs)
	if rate.Calls == 0 {
		return nil, fmt.Errorf("no call was answered within %v; give a longer --duration", length)
	}
	return out, r.half(ctx, w, out, over)
}

// jobsOf returns the number of jobs for each call that the work's peak counts.
func jobsOf(w works.Work) int64 {
	if w.Name == works.Worker.Name {
		return 1
	}
	return w.Jobs
}

// warmUp runs a work for a short time, and returns its jobs per second.
func (r *Runner) warmUp(ctx context.Context, w works.Work) (float64, error) {
	if err := r.fill(ctx, w, warmJobs); err != nil {
		return 0, err
	}
	rate, err := r.peak(ctx, w, r.part(warmPart), warmJobs)
	if err != nil {
		return 0, err
	}
	return rate.PerSecond() * float64(jobsOf(w)), nil
}

// fill creates jobs until enough wait, if the work takes waiting jobs.
func (r *Runner) fill(ctx context.Context, w works.Work, jobs int64) error {
	if !w.Takes {
		return nil
	}
	waiting, err := r.Target.Waiting(ctx, w.Type)
	if err == nil {
		_, err = r.Target.Fill(ctx, w.Type, jobs-waiting)
	}
	return err
}

func (r *Runner) peak(ctx context.Context, w works.Work, length time.Duration, backlog int64) (*load.Rate, error) {
	if w.Name == works.Worker.Name {
		return r.Target.WorkerPeak(ctx, length, backlog)
	}
	return w.Peak(ctx, r.Target, load.Closed{For: length, Most: mostBulk / w.Jobs})
}

func (r *Runner) half(ctx context.Context, w works.Work, out *WorkResult, over float64) error {
	length := r.part(halfPart)
	calls := min(out.Peak.JobsPerSecond*half/float64(w.Jobs), float64(mostHalf/w.Jobs)/length.Seconds())
	o := load.Open{Rate: calls, For: length}
	run := func() (*load.Outcome, error) { return w.At(ctx, r.Target, o) }
	if w.Name == works.Worker.Name {
		run = func() (*load.Outcome, error) { return r.Target.WorkerAt(ctx, o) }
	} else if err := r.fill(ctx, w, int64(calls*length.Seconds()*1.1)*w.Jobs+int64(w.UnderWay)*w.Jobs); err != nil {
		return err
	}
	r.Progress(Step{w.Title + ": at half of that", over + 0.05 + peakPart})
	got, err := run()
	if err != nil {
		return err
	}
	if got.Failed > 0 {
		return fmt.Errorf("%d of %d calls failed, the first with: %w", got.Failed, got.Due, got.Err)
	}
	out.Half = Half{
		JobsPerSecond: calls * float64(w.Jobs), Latency: got.Latencies.Summary(), KeptUp: got.KeptUp(length), Unsent: got.Unsent, MostBehind: got.MostBehind, Stalls: len(got.Stalls),
	}
	return nil
}
