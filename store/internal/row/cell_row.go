package row

import (
	"encoding/binary"

	"github.com/daybookq/daybook/store/internal/lsm"
)

// Cell counts the pending spans of a part of a lane.
type Cell struct {
	Key         string
	Jobs, Spans int64
	Divided     bool
	Dirty       bool // on the machine's list of unwritten cells
}

func (c *Cell) Encode() []byte {
	e := make(lsm.Encoder, 0, 8)
	e.Uint(uint64(c.Jobs))
	e.Uint(uint64(c.Spans))
	e.Bool(c.Divided)
	return e
}

func DecodeCell(key string, value []byte) *Cell {
	d := lsm.Decoder(value)
	return &Cell{Key: key, Jobs: int64(d.Uint()), Spans: int64(d.Uint()), Divided: d.Bool()}
}

// Size is about how many bytes of memory a cell takes with its place in the cache.
func (c *Cell) Size() int { return 150 + len(c.Key) }

// CellLevels are the ways in which a lane is cut, each finer than the one before. The first levels cut by the order of
// spans, which is the seq of a command: into stretches of 2^28, 2^18 and 2^8 commands, and single commands. A command
// can make jobs of several batches pending, and claims can cut a batch into many spans. So the later levels cut by
// batch, and by stretches of 2^15 and 2^8 lines.
var CellLevels = [...]struct{ order, line uint }{{order: 28}, {order: 18}, {order: 8}, {}, {line: 32}, {line: 15}, {line: 8}}

const (
	seqLevel  = 4 // the first level that cuts by batch
	lineLevel = 5 // the first level that cuts by line
)

// Parts of a ready key.
const (
	OrderAt = 10
	SeqAt   = 18
	LastAt  = 26
)

// CellKey is the key of the cell, of a level, that holds the span of a ready key.
func CellKey(ready string, level int) string {
	k := make(lsm.KeyBuilder, 0, 31)
	k.U8(CellTable)
	k = append(k, ready[1:OrderAt]...)
	k.U8(byte(level))
	k.U64(lsm.U64At(ready, OrderAt) >> CellLevels[level].order)
	if level >= seqLevel {
		k = append(k, ready[SeqAt:LastAt]...)
	}
	if level >= lineLevel {
		k.U32(lsm.U32At(ready, LastAt) >> CellLevels[level].line)
	}
	return string(k)
}

// cellTail is the number of bytes of a cell's key after its level.
func cellTail(level byte) int {
	switch {
	case level >= lineLevel:
		return 20
	case level >= seqLevel:
		return 16
	}
	return 8
}

// ReadyRange returns the range of ready keys that a cell counts, from … to (exclusive).
func (c *Cell) ReadyRange() (from, to string) {
	lanePrefix, level := string(ReadyTable)+c.Key[1:OrderAt], int(c.Key[OrderAt])
	position := []byte(c.Key[OrderAt+1:])
	start := binary.BigEndian.Uint64(position) << CellLevels[level].order
	if level < seqLevel {
		k := lsm.KeyBuilder(lanePrefix)
		k.U64(start)
		end := start + 1<<CellLevels[level].order
		if end <= start { // more than 64 bits can count
			return Padded(k), lsm.After(lanePrefix)
		}
		to := lsm.KeyBuilder(lanePrefix)
		to.U64(end)
		return Padded(k), Padded(to)
	}
	batchPrefix := lanePrefix + string(position[:16])
	if level < lineLevel {
		return Padded(lsm.KeyBuilder(batchPrefix)), lsm.After(batchPrefix)
	}
	line := binary.BigEndian.Uint32(position[16:])
	k, end := lsm.KeyBuilder(batchPrefix), lsm.KeyBuilder(batchPrefix)
	k.U32(line << CellLevels[level].line)
	end.U32((line + 1) << CellLevels[level].line)
	return string(k), string(end)
}

// Padded extends the beginning of a ready key to a whole one.
func Padded(k lsm.KeyBuilder) string {
	for len(k) < 30 {
		k.U8(0)
	}
	return string(k)
}
