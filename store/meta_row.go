package store

// formatVersion is the version of keys and values. A store of a newer one is refused.
const formatVersion = 4

// meta is the one row that says how far the store has come.
type meta struct {
	version   int
	journal   string // the UUID of the journal this state was made from
	cursor    uint64 // seq of the last command applied
	at        int64  // its time
	level     int
	graceAt   int64 // leases run from here at the earliest
	nextQueue uint32
	stopped   bool   // no job is handed out
	served    string // the client that a fair claim served last
	// keys counts the idempotency keys of each generation, oldest first.
	keys []keyGeneration
	// epochs are those that began after epoch 0, in order; see epochs.go.
	epochs   []epoch
	sessions uint64 // how many are open
	// effects are the segments of effects rows, oldest first.
	effects []effectSegment
}

func (m *meta) encode() []byte {
	var e encoder
	e.uint(uint64(m.version))
	e.text(m.journal)
	e.uint(m.cursor)
	e.int(m.at)
	e.uint(uint64(m.level))
	e.int(m.graceAt)
	e.uint(uint64(m.nextQueue))
	e.bool(m.stopped)
	e.text(m.served)
	e.uint(uint64(len(m.keys)))
	for _, g := range m.keys {
		e.uint(uint64(g.number))
		e.uint(g.keys)
	}
	e.uint(uint64(len(m.epochs)))
	for _, x := range m.epochs {
		e.uint(x.number)
		e.int(x.at)
	}
	e.uint(m.sessions)
	e.uint(uint64(len(m.effects)))
	for _, x := range m.effects {
		e.uint(x.first)
		e.int(x.at)
		e.int(x.bytes)
	}
	return e
}

func decodeMeta(value []byte) (m meta) {
	d := decoder(value)
	m.version = int(d.uint())
	m.journal = d.text()
	m.cursor = d.uint()
	m.at = d.int()
	m.level = int(d.uint())
	m.graceAt = d.int()
	m.nextQueue = uint32(d.uint())
	if m.version != formatVersion {
		return m // whoever opens it sees to that
	}
	m.stopped = d.bool()
	m.served = d.text()
	m.keys = make([]keyGeneration, d.count(2))
	for i := range m.keys {
		m.keys[i] = keyGeneration{uint32(d.uint()), d.uint()}
	}
	m.epochs = make([]epoch, d.count(2))
	for i := range m.epochs {
		m.epochs[i] = epoch{d.uint(), d.int()}
	}
	m.sessions = d.uint()
	m.effects = make([]effectSegment, d.count(3))
	for i := range m.effects {
		m.effects[i] = effectSegment{d.uint(), d.int(), d.int()}
	}
	return m
}
