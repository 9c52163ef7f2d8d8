package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// formatVersion is the version of keys and values. Open refuses a store of a newer version.
const formatVersion = 9

// meta is the only row of its table. It has the cursor and the totals.
type meta struct {
	version   int
	journal   string // the UUID of the journal that this state was made from
	cursor    uint64 // seq of the last command applied
	at        int64  // its time
	level     int
	graceAt   int64 // leases run from here at the earliest
	nextQueue uint32
	stopped   bool   // no job is handed out
	served    string // the client that a fair claim served last
	// keys counts the idempotency keys of each generation, oldest first. Owners' rows count their bytes in each
	// generation.
	keys []keyGeneration
	// epochs are the epochs after epoch 0, in order; see epochs.go.
	epochs       []epoch
	sessions     uint64 // how many are open
	sessionBytes uint64 // about the size of their rows
	purgedAt     int64  // of the timer for rows of purged batches; 0: none are left
	// effects are the segments of effects rows, oldest first.
	effects []effectSegment
}

func (m *meta) encode() []byte {
	var e lsm.Encoder
	e.Uint(uint64(m.version))
	e.Text(m.journal)
	e.Uint(m.cursor)
	e.Int(m.at)
	e.Uint(uint64(m.level))
	e.Int(m.graceAt)
	e.Uint(uint64(m.nextQueue))
	e.Bool(m.stopped)
	e.Text(m.served)
	e.Uint(uint64(len(m.keys)))
	for _, g := range m.keys {
		e.Uint(uint64(g.number))
		e.Uint(g.keys)
		e.Uint(g.bytes)
	}
	e.Uint(uint64(len(m.epochs)))
	for _, x := range m.epochs {
		e.Uint(x.number)
		e.Int(x.at)
	}
	e.Uint(m.sessions)
	e.Uint(m.sessionBytes)
	e.Int(m.purgedAt)
	e.Uint(uint64(len(m.effects)))
	for _, x := range m.effects {
		e.Uint(x.first)
		e.Int(x.at)
		e.Int(x.bytes)
	}
	return e
}

func decodeMeta(value []byte) (m meta) {
	d := lsm.Decoder(value)
	m.version = int(d.Uint())
	m.journal = d.Text()
	m.cursor = d.Uint()
	m.at = d.Int()
	m.level = int(d.Uint())
	m.graceAt = d.Int()
	m.nextQueue = uint32(d.Uint())
	if m.version != formatVersion {
		return m // known reports the newer format
	}
	m.stopped = d.Bool()
	m.served = d.Text()
	m.keys = make([]keyGeneration, d.Count(3))
	for i := range m.keys {
		m.keys[i] = keyGeneration{uint32(d.Uint()), d.Uint(), d.Uint()}
	}
	m.epochs = make([]epoch, d.Count(2))
	for i := range m.epochs {
		m.epochs[i] = epoch{d.Uint(), d.Int()}
	}
	m.sessions, m.sessionBytes, m.purgedAt = d.Uint(), d.Uint(), d.Int()
	m.effects = make([]effectSegment, d.Count(3))
	for i := range m.effects {
		m.effects[i] = effectSegment{d.Uint(), d.Int(), d.Int()}
	}
	return m
}

// epoch returns the number of the newest epoch.
func (m *meta) epoch() uint64 {
	if n := len(m.epochs); n > 0 {
		return m.epochs[n-1].number
	}
	return 0
}

// known refuses a row that a newer version of the program wrote.
func (m *meta) known() error {
	if m.version > formatVersion || m.level > job.Level {
		return fmt.Errorf("open store: format %d, level %d: %w", m.version, m.level, ErrNewerFormat)
	}
	if m.version < formatVersion {
		return fmt.Errorf("open store: format %d, where this program knows %d: %w", m.version, formatVersion, ErrOlderFormat)
	}
	return nil
}

// effectSegment is a range of effects rows, from its first seq up to the next segment's.
type effectSegment struct {
	first uint64 // seq of its first row
	at    int64  // its time
	bytes int64  // of keys and values
}

// keyGeneration counts the keys of a generation.
type keyGeneration struct {
	number uint32
	keys   uint64
	bytes  uint64 // of their rows
}

// numKeys returns the number of idempotency keys, and the size of their rows.
func (m *meta) numKeys() (n, bytes uint64) {
	for _, g := range m.keys {
		n += g.keys
		bytes += g.bytes
	}
	return n, bytes
}

// epoch records when the first command of an epoch was applied.
type epoch struct {
	number uint64 // the high bits of its seqs
	at     int64  // unix ms
}
