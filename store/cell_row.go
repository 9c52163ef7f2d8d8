package store

import (
	"encoding/binary"

	"github.com/daybookq/daybook/store/lsm"
)

// cell counts the pending spans of a part of a lane.
type cell struct {
	key         string
	jobs, spans int64
	divided     bool
	dirty       bool // on the machine's list of unwritten cells
}

func (c *cell) encode() []byte {
	e := make(lsm.Encoder, 0, 8)
	e.Uint(uint64(c.jobs))
	e.Uint(uint64(c.spans))
	e.Bool(c.divided)
	return e
}

func decodeCell(key string, value []byte) *cell {
	d := lsm.Decoder(value)
	return &cell{key: key, jobs: int64(d.Uint()), spans: int64(d.Uint()), divided: d.Bool()}
}

// size is about how many bytes of memory a cell takes with its place in the cache.
func (c *cell) size() int { return 150 + len(c.key) }

// cellLevels are the ways in which a lane is cut, each finer than the one before. The first levels cut by the order of
// spans, which is the seq of a command: into stretches of 2^28, 2^18 and 2^8 commands, and single commands. A command
// can make jobs of several batches pending, and claims can cut a batch into many spans. So the later levels cut by
// batch, and by stretches of 2^15 and 2^8 lines.
var cellLevels = [...]struct{ order, line uint }{{order: 28}, {order: 18}, {order: 8}, {}, {line: 32}, {line: 15}, {line: 8}}

const (
	seqLevel  = 4 // the first level that cuts by batch
	lineLevel = 5 // the first level that cuts by line
)

// Parts of a ready key.
const (
	orderAt = 10
	seqAt   = 18
	lastAt  = 26
)

// cellKey is the key of the cell, of a level, that holds the span of a ready key.
func cellKey(ready string, level int) string {
	k := make(lsm.KeyBuilder, 0, 31)
	k.U8(cellTable)
	k = append(k, ready[1:orderAt]...)
	k.U8(byte(level))
	k.U64(lsm.U64At(ready, orderAt) >> cellLevels[level].order)
	if level >= seqLevel {
		k = append(k, ready[seqAt:lastAt]...)
	}
	if level >= lineLevel {
		k.U32(lsm.U32At(ready, lastAt) >> cellLevels[level].line)
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

// readyRange returns the range of ready keys that a cell counts, from … to (exclusive).
func (c *cell) readyRange() (from, to string) {
	lanePrefix, level := string(readyTable)+c.key[1:orderAt], int(c.key[orderAt])
	position := []byte(c.key[orderAt+1:])
	start := binary.BigEndian.Uint64(position) << cellLevels[level].order
	if level < seqLevel {
		k := lsm.KeyBuilder(lanePrefix)
		k.U64(start)
		end := start + 1<<cellLevels[level].order
		if end <= start { // more than 64 bits can count
			return padded(k), lsm.After(lanePrefix)
		}
		to := lsm.KeyBuilder(lanePrefix)
		to.U64(end)
		return padded(k), padded(to)
	}
	batchPrefix := lanePrefix + string(position[:16])
	if level < lineLevel {
		return padded(lsm.KeyBuilder(batchPrefix)), lsm.After(batchPrefix)
	}
	line := binary.BigEndian.Uint32(position[16:])
	k, end := lsm.KeyBuilder(batchPrefix), lsm.KeyBuilder(batchPrefix)
	k.U32(line << cellLevels[level].line)
	end.U32((line + 1) << cellLevels[level].line)
	return string(k), string(end)
}

// padded extends the beginning of a ready key to a whole one.
func padded(k lsm.KeyBuilder) string {
	for len(k) < 30 {
		k.U8(0)
	}
	return string(k)
}
