package wasi

import (
	"maps"
	"sync"
	"time"
)

// Stats are what a Pool has done since it was made, and what it has now.
type Stats struct {
	// Runs counts the runs of guests by how they ended:
	//
	//	ok        with status 0
	//	exit      with another status
	//	trap      by an error of the guest
	//	refused   the module could not be instantiated
	//	timeout   it took too long
	//	stopped   nobody waits for the job any more, or the runner ends
	//	memory    the process had too much memory
	//	ended     the process ended, or something else has ended it
	//	protocol  the process broke the protocol
	//	blob      the input could not be read, or the output not stored
	//	machine   the machine lacks memory or file descriptors
	Runs map[string]int64
	Time time.Duration // of all these runs together
	// Kills counts the processes that the runner has ended because of a run, by the reason, as above.
	Kills map[string]int64
	// Compilations counts them by how they ended: ok, refused (it is no module that can run), failed, or machine.
	Compilations map[string]int64
	Compiling    time.Duration // how long they took together
	Returned     int64         // jobs that went back because this machine lacked something
	CacheBytes   int64         // about
	Busy, Idle   int           // processes
	Requests     int           // of guests that are under way
}

// How a run, a kill and a compilation may end.
var (
	runEnds         = []string{"ok", "exit", "trap", "refused", "timeout", "stopped", "memory", "ended", "protocol", "blob", "machine"}
	killReasons     = []string{"timeout", "stopped", "memory", "protocol", "blob", "machine"}
	compilationEnds = []string{"ok", "refused", "failed", "machine"}
)

// counters count what a Pool does.
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

// stats returns what was counted.
func (c *counters) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Runs: maps.Clone(c.runs), Time: c.time, Kills: maps.Clone(c.kills), Compilations: maps.Clone(c.compilations), Compiling: c.compiling, Returned: c.returned}
}
