package row

import (
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// FormatVersion is the version of keys and values. Open refuses a store of a newer version.
const FormatVersion = 1

// Meta is the only row of its table. It has the cursor and the totals.
type Meta struct {
	Version   int
	Journal   string // the UUID of the journal that this state was made from
	Cursor    uint64 // seq of the last command applied
	At        int64  // its time
	Level     int
	GraceAt   int64 // leases run from here at the earliest
	NextQueue uint32
	Stopped   bool   // no job is handed out
	Served    string // the client that a fair claim served last
	// keys counts the idempotency keys of each generation, oldest first. Owners' rows count their bytes in each
	// generation.
	Keys []KeyGeneration
	// epochs are the epochs after epoch 0, in order; see epochs.go.
	Epochs       []Epoch
	Sessions     uint64 // how many are open
	SessionBytes uint64 // about the size of their rows
	PurgedAt     int64  // of the timer for rows of purged batches; 0: none are left
	// effects are the segments of effects rows, oldest first.
	Effects []Segment
	History History
	Audit   [2][]Segment // those of AuditTables
	Cluster job.Cluster  // the zero value: a single server has always had this state
}

// History is the bounds of effects rows: bytes of all, and ms for each. It is zero until a command sets them.
type History struct{ Bytes, AgeMs int64 }

func (m *Meta) Encode() []byte {
	var e lsm.Encoder
	e.Uint(uint64(m.Version))
	e.Text(m.Journal)
	e.Uint(m.Cursor)
	e.Int(m.At)
	e.Uint(uint64(m.Level))
	e.Int(m.GraceAt)
	e.Uint(uint64(m.NextQueue))
	e.Bool(m.Stopped)
	e.Text(m.Served)
	e.Uint(uint64(len(m.Keys)))
	for _, g := range m.Keys {
		e.Uint(uint64(g.Number))
		e.Uint(g.Keys)
		e.Uint(g.Bytes)
	}
	e.Uint(uint64(len(m.Epochs)))
	for _, x := range m.Epochs {
		e.Uint(x.Number)
		e.Int(x.At)
	}
	e.Uint(m.Sessions)
	e.Uint(m.SessionBytes)
	e.Int(m.PurgedAt)
	encodeSegments(&e, m.Effects)
	e.Int(m.History.Bytes)
	e.Int(m.History.AgeMs)
	for i := range m.Audit {
		encodeSegments(&e, m.Audit[i])
	}
	c := &m.Cluster
	e.Text(c.ID)
	e.Uint(c.Index)
	e.Uint(c.Term)
	e.Uint(uint64(len(c.Members)))
	for _, x := range c.Members {
		e.Uint(x.ID)
		e.Text(x.Node)
		e.Text(x.Address)
		e.Uint(uint64(x.Role))
	}
	e.Uint(uint64(len(c.Removed)))
	for _, name := range c.Removed {
		e.Text(name)
	}
	e.Uint(uint64(len(c.Origins)))
	for _, x := range c.Origins {
		e.Text(x.Node)
		e.Uint(uint64(x.Level))
		e.Uint(x.ID)
		e.Uint(x.Start)
		e.Uint(x.Last)
	}
	return e
}

func DecodeMeta(value []byte) (m Meta) {
	d := lsm.Decoder(value)
	m.Version = int(d.Uint())
	m.Journal = d.Text()
	m.Cursor = d.Uint()
	m.At = d.Int()
	m.Level = int(d.Uint())
	m.GraceAt = d.Int()
	m.NextQueue = uint32(d.Uint())
	if m.Version != FormatVersion {
		return m // known reports the newer format
	}
	m.Stopped = d.Bool()
	m.Served = d.Text()
	m.Keys = make([]KeyGeneration, d.Count(3))
	for i := range m.Keys {
		m.Keys[i] = KeyGeneration{uint32(d.Uint()), d.Uint(), d.Uint()}
	}
	m.Epochs = make([]Epoch, d.Count(2))
	for i := range m.Epochs {
		m.Epochs[i] = Epoch{d.Uint(), d.Int()}
	}
	m.Sessions, m.SessionBytes, m.PurgedAt = d.Uint(), d.Uint(), d.Int()
	m.Effects, m.History = decodeSegments(&d), History{d.Int(), d.Int()}
	m.Audit[0], m.Audit[1] = decodeSegments(&d), decodeSegments(&d)
	c := &m.Cluster
	c.ID, c.Index, c.Term = d.Text(), d.Uint(), d.Uint()
	for range d.Count(4) {
		c.Members = append(c.Members, job.Member{ID: d.Uint(), Node: d.Text(), Address: d.Text(), Role: job.MemberRole(d.Uint())})
	}
	for range d.Count(1) {
		c.Removed = append(c.Removed, d.Text())
	}
	for range d.Count(5) {
		c.Origins = append(c.Origins, job.NodeOrigin{Node: d.Text(), Level: int(d.Uint()), Origin: job.Origin{ID: d.Uint(), Start: d.Uint(), Last: d.Uint()}})
	}
	return m
}

func encodeSegments(e *lsm.Encoder, segments []Segment) {
	e.Uint(uint64(len(segments)))
	for _, x := range segments {
		e.Uint(x.First)
		e.Int(x.At)
		e.Int(x.Bytes)
	}
}

func decodeSegments(d *lsm.Decoder) []Segment {
	segments := make([]Segment, d.Count(3))
	for i := range segments {
		segments[i] = Segment{d.Uint(), d.Int(), d.Int()}
	}
	return segments
}

// Epoch returns the number of the newest epoch.
func (m *Meta) Epoch() uint64 {
	if n := len(m.Epochs); n > 0 {
		return m.Epochs[n-1].Number
	}
	return 0
}

// Known refuses a row that a newer version of the program wrote.
func (m *Meta) Known() error {
	if m.Version > FormatVersion || m.Level > NewestLevel() {
		return fmt.Errorf("open store: format %d, level %d: %w", m.Version, m.Level, ErrNewerFormat)
	}
	if m.Version < FormatVersion {
		return fmt.Errorf("open store: format %d, where this program knows %d: %w", m.Version, FormatVersion, ErrOlderFormat)
	}
	return nil
}

// Segment is a range of rows of effects or of the audit, from its first seq up to the next segment's.
type Segment struct {
	First uint64 // seq of its first row
	At    int64  // its time
	Bytes int64  // of keys and values
}

// KeyGeneration counts the keys of a generation.
type KeyGeneration struct {
	Number uint32
	Keys   uint64
	Bytes  uint64 // of their rows
}

// NumKeys returns the number of idempotency keys, and the size of their rows.
func (m *Meta) NumKeys() (n, bytes uint64) {
	for _, g := range m.Keys {
		n += g.Keys
		bytes += g.Bytes
	}
	return n, bytes
}

// Epoch records when the first command of an epoch was applied.
type Epoch struct {
	Number uint64 // the high bits of its seqs
	At     int64  // unix ms
}
