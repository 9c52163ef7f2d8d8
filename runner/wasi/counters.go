package wasi

import (
	"maps"
	"sync"
	"time"
)

// Stats counts the work of a Pool since it was created, and describes its present state.
type Stats struct {
	// Runs counts the runs of guests by their end:
	//
	//	ok        exit status 0
	//	exit      another exit status
	//	trap      an error of the guest
	//	refused   the module could not be instantiated
	//	timeout   the run took too long
	//	stopped   nobody waits for the job any more, or the runner stops
	//	memory    the process used too much memory
	//	ended     the process exited or was killed by something else
	//	protocol  the process broke the protocol
	//	blob      the input could not be read, or the output not stored
	//	machine   the machine lacks memory or file descriptors
	Runs map[string]int64
	Time time.Duration // of all these runs together
	// Kills counts the processes that the runner killed because of a run, by the reason, with the names above.
	Kills map[string]int64
	// Compilations counts compilations by their end: ok, refused (the file is not a module that can run), failed, or
	// machine.
	Compilations map[string]int64
	Compiling    time.Duration // duration of all compilations together
	Returned     int64         // jobs returned to their queue because this machine lacked something
	CacheBytes   int64         // approximate
	Busy, Idle   int           // processes
	Requests     int           // outstanding requests of guests
}

// The possible ends of a run, a kill and a compilation.
var (
	runEnds         = []string{"ok", "exit", "trap", "refused", "timeout", "stopped", "memory", "ended", "protocol", "blob", "machine"}
	killReasons     = []string{"timeout", "stopped", "memory", "protocol", "blob", "machine"}
	compilationEnds = []string{"ok", "refused", "failed", "machine"}
)

// counters are the counts of a Pool.
type counters struct {
	mu                        sync.Mutex
	runs, kills, compilations map[string]int64
	time, compiling           time.Duration
	returned                  int64
}

func newCounters() *counters {
	zero := func(names []string) map[string]int64 {
		m := map[string]int64{}
		for _, name := range names {
			m[name] = 0
		}
		return m
	}
	return &counters{runs: zero(runEnds), kills: zero(killReasons), compilations: zero(compilationEnds)}
}

func (c *counters) run(end string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[end]++
	c.time += took
}

func (c *counters) kill(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills[reason]++
}

func (c *counters) compilation(end string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compilations[end]++
	c.compiling += took
}

func (c *counters) lack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned++
}

// stats returns a copy of the counts.
func (c *counters) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Runs: maps.Clone(c.runs), Time: c.time, Kills: maps.Clone(c.kills), Compilations: maps.Clone(c.compilations), Compiling: c.compiling, Returned: c.returned}
}
