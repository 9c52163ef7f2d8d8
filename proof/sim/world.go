package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/journal"
)

// world is one simulation: a machine with a disk and a clock, a server that runs on it several times, and its users.
type world struct {
	seed   uint64
	random *rand.Rand // for the course of the world; each user has its own source
	base   string     // the directory of this world
	disk   *disk      // the journal's disk
	mem    *vfs.MemFS // the store's disk
	sizes
	lie     lie
	tenants []*tenant // none in some worlds

	endedAt   atomic.Int64 // journal time when the last life that was up ended, ms
	wall      atomic.Int64 // how far the wall clock is ahead of true time, ns
	account   *account
	reference *reference
	userState

	log func(format string, args ...any)
	mu  sync.Mutex
	bad error // the first violation
}

// userState is the users' knowledge in a world. It survives the server's crashes.
type userState struct {
	runners   []*runner
	streams   []*runner // those that get their jobs through streams
	producers []*numbering
	posted    int
	chains    int
}

// sizes are the sizes of a world's files.
type sizes struct {
	small  bool
	shape  journal.Options // sizes of the journal's files
	retain int64
}

// newWorld makes the world of a seed in the directory base.
func newWorld(seed uint64, base string, l lie, log func(string, ...any)) (*world, error) {
	random := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		seed: seed, random: random, base: base, mem: vfs.NewCrashableMem(), account: newAccount(), log: log, lie: l,
		sizes: sizes{
			small:  random.IntN(2) == 0,
			shape:  journal.Options{SegmentBytes: pick(random, 600, 3000, 20_000), VolumeBytes: pick(random, int64(2000), 20_000, 200_000)},
			retain: pick(random, int64(0), 0, 5000),
		},
	}
	if err := os.MkdirAll(w.root(), 0o750); err != nil {
		return nil, err
	}
	var err error
	if w.disk, err = newDisk(w.root(), rand.New(rand.NewPCG(seed, 2)), l); err != nil {
		return nil, err
	}
	if w.reference, err = openReference(w); err != nil {
		return nil, err
	}
	for i := range 3 {
		w.runners = append(w.runners, &runner{name: fmt.Sprintf("runner-%d", i), numbers: newNumbering()})
	}
	for i := range streams {
		w.streams = append(w.streams, &runner{name: fmt.Sprintf("stream-%d", i), stream: true, numbers: newNumbering()})
	}
	for range 2 {
		w.producers = append(w.producers, newNumbering())
	}
	if random.IntN(3) > 0 {
		w.tenants = newTenants()
	}
	return w, nil
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// root is the data directory. It has the same path in every life, since Pebble's MemFS knows the store's files by their
// paths.
func (w *world) root() string { return filepath.Join(w.base, "data") }

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.wall.Load())) }

// violation records that an invariant does not hold. The simulation ends with the first violation.
func (w *world) violation(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bad == nil {
		w.bad = err
		w.log("violation: %v", err)
	}
}

func (w *world) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bad
}
