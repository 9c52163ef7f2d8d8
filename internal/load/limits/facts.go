package limits

import (
	"context"
	"time"

	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
)

// Facts are the resources that a phase used. Processor figures are averages of processors in use: 1.5 means one and a
// half.
type Facts struct {
	Seconds          float64 `json:"seconds"`
	ServerProcessors float64 `json:"server_processors"`
	LoadProcessors   float64 `json:"load_processors"`
	// OtherProcessors and StolenProcessors are known only if the server runs on this machine, under Linux.
	OtherProcessors  float64 `json:"other_processors"`  // used by other programs, and by the kernel for all
	StolenProcessors float64 `json:"stolen_processors"` // used by other machines on the same host
	ServerMayUse     int     `json:"server_may_use"`    // processors
	LoadMayUse       int     `json:"load_may_use"`      // processors, if the load is on another machine
	Local            bool    `json:"local"`
	Disk             Disk    `json:"disk"`
}

// Disk is the journal's use of the disk during a phase.
type Disk struct {
	Syncs        int64   `json:"syncs"`
	SyncMeanMs   float64 `json:"sync_mean_ms"`
	SyncShare    float64 `json:"sync_share"` // part of the time during which an fsync was running
	RecordsGroup float64 `json:"records_per_group"`
	MBPerSecond  float64 `json:"journal_mb_per_s"`
}

// reading is a reading of all counters. Facts are computed from two readings.
type reading struct {
	at       time.Time
	server   works.Figures
	own      time.Duration
	machine  load.Processors
	machines bool // machine was read
}

func (r *Runner) read(ctx context.Context) (x reading, err error) {
	if x.server, err = r.Target.Figures(ctx); err != nil {
		return x, err
	}
	if x.own, err = load.Own(); err != nil {
		return x, err
	}
	if r.Local {
		var none error
		x.machine, none = load.ReadProcessors()
		x.machines = none == nil // otherwise this system lacks /proc/stat
	}
	x.at = time.Now()
	return x, nil
}

func (r *Runner) facts(before, after reading) Facts {
	took := after.at.Sub(before.at).Seconds()
	server := after.server.Since(before.server)
	of := func(d time.Duration) float64 { return d.Seconds() / took }
	f := Facts{
		Seconds: took, ServerProcessors: of(server.Processor), LoadProcessors: of(after.own - before.own),
		ServerMayUse: server.Processors, LoadMayUse: r.Processors, Local: r.Local,
		Disk: Disk{Syncs: server.Syncs, SyncShare: of(server.Syncing), MBPerSecond: float64(server.Written) / 1e6 / took},
	}
	if server.Syncs > 0 {
		f.Disk.SyncMeanMs = server.Syncing.Seconds() * 1000 / float64(server.Syncs)
	}
	if server.Groups > 0 {
		f.Disk.RecordsGroup = float64(server.Records) / float64(server.Groups)
	}
	if before.machines && after.machines {
		m := after.machine.Since(before.machine)
		f.OtherProcessors = max(0, of(m.Busy)-f.ServerProcessors-f.LoadProcessors)
		f.StolenProcessors = of(m.Stolen)
	}
	return f
}
