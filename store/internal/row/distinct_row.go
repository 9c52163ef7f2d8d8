package row

import (
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// DistinctState is the row of a strategy of prefer_distinct: which strategy claims use, and how far its index is built.
type DistinctState struct {
	Number   byte
	Strategy job.Strategy
	UsedAt   int64 // about when a claim used it last
	Stage    distinctStage
	// The stage has looked at the list keys below from. Of the spans that the stage looks at, the index has those with
	// lower keys.
	From    string
	StepAt  int64 // of the timer for the next step; 0: no timer
	BegunAt int64 // when the line was last dropped, whether or not it is built again; 0: never
	Leaves  uint64
	Levels  []int // the numbers of the keys of the levels below the roots
}

// distinctStage is a stage in which an index is built.
type distinctStage uint8

const (
	CountingActive distinctStage = iota // looks at the active spans
	LiningUp                            // looks at the pending spans
	InLine                              // the index is complete
	Overfull                            // has no line, because too many values wait
)

// Counts and lines report whether the index has an active or a pending span with this list key.
func (s *DistinctState) Counts(listKey string) bool {
	return s.Stage != CountingActive || listKey < s.From
}

func (s *DistinctState) Lines(listKey string) bool {
	return s.Stage == InLine || s.Stage == LiningUp && listKey < s.From
}

func (s *DistinctState) Encode() []byte {
	e := make(lsm.Encoder, 0, 80)
	e.Text(string(s.Strategy))
	e.Int(s.UsedAt)
	e.Uint(uint64(s.Stage))
	e.Text(s.From)
	e.Int(s.StepAt)
	e.Int(s.BegunAt)
	e.Uint(s.Leaves)
	e.Uint(uint64(len(s.Levels)))
	for _, key := range s.Levels {
		e.Uint(uint64(key))
	}
	return e
}

func DecodeDistinctState(number byte, value []byte) (s DistinctState) {
	d := lsm.Decoder(value)
	s = DistinctState{Number: number, Strategy: job.Strategy(d.Text()), UsedAt: d.Int(), Stage: distinctStage(d.Uint()), From: d.Text()}
	s.StepAt, s.BegunAt, s.Leaves = d.Int(), d.Int(), d.Uint()
	for range d.Count(1) {
		s.Levels = append(s.Levels, int(d.Uint()))
	}
	of := make([]bool, len(s.Strategy.DistinctKeys()))
	if len(of) == 0 || len(of) > job.MaxDistinctKeys {
		lsm.Contradict("decode", "%v", s.Strategy)
	}
	for _, key := range s.Levels {
		if key < 0 || key >= len(of) || of[key] {
			lsm.Contradict("decode", "levels %v of %v", s.Levels, s.Strategy)
		}
		of[key] = true
	}
	if len(s.Levels) != len(of) || s.Stage > Overfull {
		lsm.Contradict("decode", "levels %v of %v in stage %d", s.Levels, s.Strategy, s.Stage)
	}
	return s
}

// ValueName is a value of a key. Equal texts of different clients are different values.
type ValueName struct{ Client, Text string }

// Waiting is a pending span, with the fields that order it.
type Waiting struct {
	Order, Seq     uint64
	Priority, Last uint32
	Class          job.Class
}

func (w *Waiting) End() Position { return Position{w.Seq, w.Last} }

// DistinctLeaf is the row of a leaf: the pending jobs of a queue that have the same values of the keys.
type DistinctLeaf struct {
	QueueID uint32
	Values  [job.MaxDistinctKeys]string // by key
	Has     [job.MaxDistinctKeys]bool   // whether the jobs have the key at all
	Spans   int64
	First   Waiting
}

func (l *DistinctLeaf) Encode(keys int) []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Uint(uint64(l.QueueID))
	for key := range keys {
		if e.Bool(l.Has[key]); l.Has[key] {
			e.Text(l.Values[key])
		}
	}
	e.Uint(uint64(l.Spans))
	e.Uint(uint64(l.First.Priority))
	e.Uint(uint64(l.First.Class))
	e.Uint(l.First.Order)
	e.Uint(l.First.Seq)
	e.Uint(uint64(l.First.Last))
	return e
}

func DecodeDistinctLeaf(keys int, value []byte) (l DistinctLeaf) {
	d := lsm.Decoder(value)
	l.QueueID = uint32(d.Uint())
	for key := range keys {
		if l.Has[key] = d.Bool(); l.Has[key] {
			l.Values[key] = d.Text()
		}
	}
	l.Spans = int64(d.Uint())
	l.First.Priority, l.First.Class = uint32(d.Uint()), job.Class(d.Uint())
	l.First.Order, l.First.Seq, l.First.Last = d.Uint(), d.Uint(), uint32(d.Uint())
	if l.Spans < 1 {
		lsm.Contradict("decode", "a leaf of %d spans", l.Spans)
	}
	return l
}

// The byte after an index's number is the kind of a row. The index's main row lacks this byte.
const (
	DistinctLeafRow  = 1
	DistinctCountRow = 2
	DistinctSpanRow  = 3
)

// DistinctKey is the key of the row of an index, and the prefix of all of its keys.
func DistinctKey(number byte) string { return string([]byte{DistinctTable, number}) }

func DistinctPrefix(number, kind byte) string { return string([]byte{DistinctTable, number, kind}) }

func DistinctLeafKey(number byte, id uint64) string {
	k := append(make(lsm.KeyBuilder, 0, 11), DistinctTable, number, DistinctLeafRow)
	k.U64(id)
	return string(k)
}

// DistinctCountKey is for the number of active jobs of a value of a key.
func DistinctCountKey(number byte, key int, v ValueName) string {
	k := append(make(lsm.KeyBuilder, 0, 5+len(v.Client)+len(v.Text)), DistinctTable, number, DistinctCountRow, byte(key))
	k = append(k, v.Client...)
	k.U8(0)
	k = append(k, v.Text...)
	return string(k)
}

func SplitDistinctCountKey(k string) (key int, v ValueName) {
	v.Client, v.Text, _ = strings.Cut(k[4:], "\x00")
	return int(k[3]), v
}

// DistinctSpanKey is for a pending span of a leaf, in the order of the strategy. Newest reverses the order.
func DistinctSpanKey(number byte, base job.Strategy, id uint64, w *Waiting) string {
	k := append(make(lsm.KeyBuilder, 0, distinctSpanBytes), DistinctTable, number, DistinctSpanRow)
	k.U64(id)
	k.U32(^w.Priority)
	at := len(k)
	k.U8(byte(w.Class))
	k.U64(w.Order)
	k.U64(w.Seq)
	k.U32(w.Last)
	if base == job.Newest {
		for i := at; i < len(k); i++ {
			k[i] = ^k[i]
		}
	}
	return string(k)
}

const distinctSpanBytes = 36

func SplitDistinctSpanKey(base job.Strategy, key string) (id uint64, w Waiting) {
	k := []byte(key)
	if base == job.Newest {
		for i := 15; i < len(k); i++ {
			k[i] = ^k[i]
		}
	}
	place := string(k)
	return lsm.U64At(key, 3), Waiting{
		Priority: ^lsm.U32At(key, 11), Class: job.Class(place[15]), Order: lsm.U64At(place, 16), Seq: lsm.U64At(place, 24), Last: lsm.U32At(place, 32),
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
	case DistinctLeafRow:
		return len(key) == 11
	case DistinctCountRow:
		return len(key) > 4 && key[3] < job.MaxDistinctKeys && strings.IndexByte(key[4:], 0) > 0
	case DistinctSpanRow:
		return len(key) == distinctSpanBytes
	}
	return false
}

// EncodeActive encodes the number of active jobs of a value.
func EncodeActive(n int64) []byte {
	e := make(lsm.Encoder, 0, 4)
	e.Uint(uint64(n))
	return e
}

// DecodeActive is the inverse of EncodeActive. A missing row means none.
func DecodeActive(value []byte) int64 {
	if value == nil {
		return 0
	}
	d := lsm.Decoder(value)
	return int64(d.Uint())
}
