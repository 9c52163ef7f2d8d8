package limits

import (
	"fmt"

	"github.com/daybookq/daybook/internal/load"
)

// Cause is the resource that limits a work.
type Cause string

const (
	Processors Cause = "processors" // of the machine, which the server and the load share
	Server     Cause = "server"     // the server's processors, on another machine
	Load       Cause = "load"       // the processors of this machine, which sends the load
	DiskSyncs  Cause = "disk"       // fsyncs
	Waiting    Cause = "waiting"    // one call after the other: each waits for fsyncs and round trips
	Unknown    Cause = "unknown"
)

// Verdict names the cause that limits a work, and explains it with figures in a sentence or two.
type Verdict struct {
	Cause Cause  `json:"cause"`
	Text  string `json:"text"`
}

const (
	// full is the share of the processors above which they count as used up. The rest is lost because two processes wait
	// for each other in turns.
	full = 0.85
	// mostlySyncing is the share of the time above which fsyncs are the limit.
	mostlySyncing = 0.6
	// noticeable is the share of a machine above which other programs change the figures.
	noticeable = 0.15
)

// verdict finds the limit of a work whose callers made a number of calls.
func verdict(f Facts, callers int, calls int64, roundTripMs float64) Verdict {
	syncing := fmt.Sprintf("the journal waited for an fsync %.0f %% of the time (%d fsyncs of %s on average)", 100*f.Disk.SyncShare, f.Disk.Syncs, load.Millis(f.Disk.SyncMeanMs))
	usage := fmt.Sprintf("the server used %.1f of %d processors", f.ServerProcessors, f.ServerMayUse)
	used := f.ServerProcessors + f.LoadProcessors + f.others()
	switch {
	case callers == 1:
		each, syncs := f.Seconds*1000/float64(max(calls, 1)), f.Disk.SyncMeanMs*float64(f.Disk.Syncs)/float64(max(calls, 1))
		return Verdict{Waiting, fmt.Sprintf("each job waits for its own fsyncs and round trips, one after the other: %s of %s are fsyncs, and a round trip takes at least %s. More callers at the same time share the fsyncs.",
			load.Millis(syncs), load.Millis(each), load.Millis(roundTripMs))}
	case f.Disk.SyncShare >= mostlySyncing:
		return Verdict{DiskSyncs, "the disk: " + syncing + "."}
	case f.Local && f.ServerMayUse > 0 && used >= full*float64(f.ServerMayUse):
		return Verdict{Processors, fmt.Sprintf("the processors: %s, the load %.1f, and everything else %.1f; %s.", usage, f.LoadProcessors, f.others(), syncing)}
	case !f.Local && f.ServerMayUse > 0 && f.ServerProcessors >= full*float64(f.ServerMayUse):
		return Verdict{Server, "the server's processors: " + usage + "; " + syncing + "."}
	case !f.Local && f.LoadProcessors >= full*float64(f.LoadMayUse):
		return Verdict{Load, fmt.Sprintf("this machine, which sends the load: it used %.1f of %d processors. A stronger machine, or several, may show more.", f.LoadProcessors, f.LoadMayUse)}
	}
	return Verdict{Unknown, fmt.Sprintf("it cannot be told: %s, the load %.1f; %s; a round trip takes at least %s. More callers at the same time may show more.",
		usage, f.LoadProcessors, syncing, load.Millis(roundTripMs))}
}

// others returns how many processors other programs, and other machines of the host, have used.
func (f *Facts) others() float64 { return f.OtherProcessors + f.StolenProcessors }

// othersNote says how much of the machine other programs used during the measurements. It returns "" if that is little or
// unknown.
func othersNote(all []WorkResult) string {
	var used, stolen, seconds float64
	processors := 0
	for _, w := range all {
		f := w.Peak.Facts
		used += f.others() * f.Seconds
		stolen += f.StolenProcessors * f.Seconds
		seconds += f.Seconds
		processors = f.ServerMayUse
	}
	if seconds == 0 || used/seconds < noticeable*float64(processors) {
		return ""
	}
	text := fmt.Sprintf("Other programs and the kernel used %.1f of %d processors meanwhile", (used-stolen)/seconds, processors)
	if stolen/seconds >= 0.05 {
		text += fmt.Sprintf(", and other machines on the same host %.1f", stolen/seconds)
	}
	return text + ". Without them the figures would be better. An fsync then also waits for a processor."
}
