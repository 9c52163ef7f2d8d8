package store

import (
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// distinctState is the row of a strategy of prefer_distinct: which strategy claims use, and how far its index is built.
type distinctState struct {
	number   byte
	strategy job.Strategy
	usedAt   int64 // about when a claim used it last
	stage    distinctStage
	// The stage has looked at the list keys below from. Of the spans that the stage looks at, the index has those with
	// lower keys.
	from    string
	stepAt  int64 // of the timer for the next step; 0: no timer
	begunAt int64 // when the line was last dropped, whether or not it is built again; 0: never
	leaves  uint64
	levels  []int // the numbers of the keys of the levels below the roots
}

// distinctStage is a stage in which an index is built.
type distinctStage uint8

const (
	countingActive distinctStage = iota // looks at the active spans
	liningUp                            // looks at the pending spans
	inLine                              // the index is complete
	overfull                            // has no line, because too many values wait
)

// counts and lines report whether the index has an active or a pending span with this list key.
func (s *distinctState) counts(listKey string) bool {
	return s.stage != countingActive || listKey < s.from
}

func (s *distinctState) lines(listKey string) bool {
	return s.stage == inLine || s.stage == liningUp && listKey < s.from
}

func (s *distinctState) encode() []byte {
	e := make(lsm.Encoder, 0, 80)
	e.Text(string(s.strategy))
	e.Int(s.usedAt)
	e.Uint(uint64(s.stage))
	e.Text(s.from)
	e.Int(s.stepAt)
	e.Int(s.begunAt)
	e.Uint(s.leaves)
	e.Uint(uint64(len(s.levels)))
	for _, key := range s.levels {
		e.Uint(uint64(key))
	}
	return e
}

func decodeDistinctState(number byte, value []byte) (s distinctState) {
	d := lsm.Decoder(value)
	s = distinctState{number: number, strategy: job.Strategy(d.Text()), usedAt: d.Int(), stage: distinctStage(d.Uint()), from: d.Text()}
	s.stepAt, s.begunAt, s.leaves = d.Int(), d.Int(), d.Uint()
	for range d.Count(1) {
		s.levels = append(s.levels, int(d.Uint()))
	}
	of := make([]bool, len(s.strategy.DistinctKeys()))
	if len(of) == 0 || len(of) > job.MaxDistinctKeys {
		lsm.Contradict("decode", "%v", s.strategy)
	}
	for _, key := range s.levels {
		if key < 0 || key >= len(of) || of[key] {
			lsm.Contradict("decode", "levels %v of %v", s.levels, s.strategy)
		}
		of[key] = true
	}
	if len(s.levels) != len(of) || s.stage > overfull {
		lsm.Contradict("decode", "levels %v of %v in stage %d", s.levels, s.strategy, s.stage)
	}
	return s
}

// valueName is a value of a key. Equal texts of different clients are different values.
type valueName struct{ client, text string }

// waiting is a pending span, with the fields that order it.
type waiting struct {
	order, seq     uint64
	priority, last uint32
	class          job.Class
}

func (w *waiting) end() position { return position{w.seq, w.last} }

// distinctLeaf is the row of a leaf: the pending jobs of a queue that have the same values of the keys.
type distinctLeaf struct {
	queueID uint32
	values  [job.MaxDistinctKeys]string // by key
	has     [job.MaxDistinctKeys]bool   // whether the jobs have the key at all
	spans   int64
	first   waiting
}

func (l *distinctLeaf) encode(keys int) []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Uint(uint64(l.queueID))
	for key := range keys {
		if e.Bool(l.has[key]); l.has[key] {
			e.Text(l.values[key])
		}
	}
	e.Uint(uint64(l.spans))
	e.Uint(uint64(l.first.priority))
	e.Uint(uint64(l.first.class))
	e.Uint(l.first.order)
	e.Uint(l.first.seq)
	e.Uint(uint64(l.first.last))
	return e
}

func decodeDistinctLeaf(keys int, value []byte) (l distinctLeaf) {
	d := lsm.Decoder(value)
	l.queueID = uint32(d.Uint())
	for key := range keys {
		if l.has[key] = d.Bool(); l.has[key] {
			l.values[key] = d.Text()
		}
	}
	l.spans = int64(d.Uint())
	l.first.priority, l.first.class = uint32(d.Uint()), job.Class(d.Uint())
	l.first.order, l.first.seq, l.first.last = d.Uint(), d.Uint(), uint32(d.Uint())
	if l.spans < 1 {
		lsm.Contradict("decode", "a leaf of %d spans", l.spans)
	}
	return l
}

// The byte after an index's number is the kind of a row. The index's main row lacks this byte.
const (
	distinctLeafRow  = 1
	distinctCountRow = 2
	distinctSpanRow  = 3
)

// distinctKey is the key of the row of an index, and the prefix of all of its keys.
func distinctKey(number byte) string { return string([]byte{distinctTable, number}) }

func distinctPrefix(number, kind byte) string { return string([]byte{distinctTable, number, kind}) }

func distinctLeafKey(number byte, id uint64) string {
	k := append(make(lsm.KeyBuilder, 0, 11), distinctTable, number, distinctLeafRow)
	k.U64(id)
	return string(k)
}

// distinctCountKey is for the number of active jobs of a value of a key.
func distinctCountKey(number byte, key int, v valueName) string {
	k := append(make(lsm.KeyBuilder, 0, 5+len(v.client)+len(v.text)), distinctTable, number, distinctCountRow, byte(key))
	k = append(k, v.client...)
	k.U8(0)
	k = append(k, v.text...)
	return string(k)
}

func splitDistinctCountKey(k string) (key int, v valueName) {
	v.client, v.text, _ = strings.Cut(k[4:], "\x00")
	return int(k[3]), v
}

// distinctSpanKey is for a pending span of a leaf, in the order of the strategy. Newest reverses the order.
func distinctSpanKey(number byte, base job.Strategy, id uint64, w *waiting) string {
	k := append(make(lsm.KeyBuilder, 0, distinctSpanBytes), distinctTable, number, distinctSpanRow)
	k.U64(id)
	k.U32(^w.priority)
	at := len(k)
	k.U8(byte(w.class))
	k.U64(w.order)
	k.U64(w.seq)
	k.U32(w.last)
	if base == job.Newest {
		for i := at; i < len(k); i++ {
			k[i] = ^k[i]
		}
	}
	return string(k)
}

const distinctSpanBytes = 36

func splitDistinctSpanKey(base job.Strategy, key string) (id uint64, w waiting) {
	k := []byte(key)
	if base == job.Newest {
		for i := 15; i < len(k); i++ {
			k[i] = ^k[i]
		}
	}
	place := string(k)
	return lsm.U64At(key, 3), waiting{
		priority: ^lsm.U32At(key, 11), class: job.Class(place[15]), order: lsm.U64At(place, 16), seq: lsm.U64At(place, 24), last: lsm.U32At(place, 32),
	}
}

// wellFormedDistinct reports whether a key has the form of the table.
func wellFormedDistinct(key string) bool {
	switch {
	case len(key) == 2:
		return true
	case len(key) < 3:
		return false
	}
	switch key[2] {
	case distinctLeafRow:
		return len(key) == 11
	case distinctCountRow:
		return len(key) > 4 && key[3] < job.MaxDistinctKeys && strings.IndexByte(key[4:], 0) > 0
	case distinctSpanRow:
		return len(key) == distinctSpanBytes
	}
	return false
}

// encodeActive encodes the number of active jobs of a value.
func encodeActive(n int64) []byte {
	e := make(lsm.Encoder, 0, 4)
	e.Uint(uint64(n))
	return e
}

// decodeActive is the inverse of encodeActive. A missing row means none.
func decodeActive(value []byte) int64 {
	if value == nil {
		return 0
	}
	d := lsm.Decoder(value)
	return int64(d.Uint())
}
