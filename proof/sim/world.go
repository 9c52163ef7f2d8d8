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

// world is one simulation: a machine with a disk and a clock, a server that lives on it several times, and its users.
type world struct {
	seed   uint64
	random *rand.Rand // of the one who plays; each user has their own
	base   string     // directory for this world
	disk   *disk      // below the journal
	mem    *vfs.MemFS // below the store
	sizes

	endedAt   atomic.Int64 // journal time at the end of the last life that was up, ms
	wall      atomic.Int64 // how far the wall clock is from true time, ns
	account   *account
	reference *referenceStore
	userState

	log func(format string, args ...any)
	mu  sync.Mutex
	bad error // the first violation
}

// crew are the users of a world, who outlive its servers.
type userState struct {
	runners   []*runner
	producers []*numbering
	posted    int
}

// sizes are how large the files of a world are.
type sizes struct {
	small  bool
	shape  journal.Options // sizes
	retain int64
}

// newWorld makes the world of a seed in the directory base.
func newWorld(seed uint64, base string, l lie, log func(string, ...any)) (*world, error) {
	random := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		seed: seed, random: random, base: base, mem: vfs.NewCrashableMem(), account: newAccount(), log: log,
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
	for range 2 {
		w.producers = append(w.producers, newNumbering())
	}
	return w, nil
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// root is the data directory: the same path in every life, since the store's files are known by it.
func (w *world) root() string { return filepath.Join(w.base, "data") }

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.wall.Load())) }

// violation notes that something that must hold does not. The first one is what the simulation ends with.
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
