package entrylog

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// entryOverhead is added to the bytes of an entry's data, for the memory of the entry.
const entryOverhead = 96

// sizeOf returns about the bytes of an entry in memory and in a message.
func sizeOf(e *pb.Entry) uint64 { return uint64(len(e.Data)) + entryOverhead }

// cache has the newest entries, without gaps.
type cache struct {
	limit   int64
	entries []*pb.Entry
	bytes   int64
}

func (c *cache) clear() { c.entries, c.bytes = nil, 0 }

// put adds an entry, after it has dropped those from its index on, and all if the entry does not follow them. It drops the
// oldest ones beyond the limit, but never the new one.
func (c *cache) put(e *pb.Entry) {
	for n := len(c.entries); n > 0 && c.entries[n-1].GetIndex() >= e.GetIndex(); n-- {
		c.bytes -= int64(sizeOf(c.entries[n-1]))
		c.entries = c.entries[:n-1]
	}
	if n := len(c.entries); n > 0 && c.entries[n-1].GetIndex()+1 != e.GetIndex() {
		c.clear()
	}
	c.entries = append(c.entries, e)
	c.bytes += int64(sizeOf(e))
	n := 0
	for c.bytes > c.limit && n < len(c.entries)-1 {
		c.bytes -= int64(sizeOf(c.entries[n]))
		c.entries[n] = nil
		n++
	}
	c.entries = c.entries[n:]
}

// get returns the entries from lo to hi-1, or the first of them if they have more than size bytes in all. It returns none
// if it does not have lo.
func (c *cache) get(lo, hi, size uint64) []*pb.Entry {
	if len(c.entries) == 0 || lo < c.entries[0].GetIndex() || lo >= hi {
		return nil
	}
	first := c.entries[0].GetIndex()
	list := slices.Clone(c.entries[lo-first : hi-first]) // put changes the entries of the cache
	var bytes uint64
	for i, e := range list {
		if bytes += sizeOf(e); i > 0 && bytes > size {
			return list[:i]
		}
	}
	return list
}
