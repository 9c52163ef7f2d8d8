package cluster

import (
	"fmt"
	"iter"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/journal"
)

const (
	// positionEvery is about the number of bytes from one known position to the next.
	positionEvery = 4 << 20
	// segmentBytes is the size of the segments of a copy, and of the reads of entries for it.
	segmentBytes = 4 << 20
)

// positions are some positions that were delivered, in order.
type positions struct {
	list  []node.Position
	since int // bytes
}

// add notes the position after some bytes of records from time to time.
func (p *positions) add(pos node.Position, bytes int) {
	if p.since += bytes; p.since >= positionEvery || len(p.list) == 0 {
		p.list, p.since = append(p.list, pos), 0
	}
}

// before returns the last known position at or before a seq, and false if there is none.
func (p *positions) before(seq uint64) (pos node.Position, known bool) {
	n := len(p.list)
	for n > 0 && p.list[n-1].Seq > seq {
		n--
	}
	if n == 0 {
		return pos, false
	}
	return p.list[n-1], true
}

// Cut removes entries that the store has on disk, in whole volumes. It keeps at least retain bytes, for members that were
// away, and the entries after a base that another node fetches now.
func (c *Cluster) Cut(applied uint64, retain int64) ([]journal.Volume, error) {
	c.notes.mu.Lock()
	pos, known := c.notes.positions.before(applied)
	if known {
		i := slices.Index(c.notes.positions.list, pos)
		c.notes.positions.list = slices.Delete(c.notes.positions.list, 0, i)
	}
	c.notes.mu.Unlock()
	if !known {
		return nil, nil
	}
	c.note.Store(&pos)
	if stored, _ := c.log.Bytes(); stored <= retain {
		return nil, nil
	}
	freed, err := c.log.Cut(min(pos.Index, c.base.needs()))
	if freed == 0 {
		return nil, err
	}
	return []journal.Volume{{Last: pos.Seq, Bytes: freed}}, err
}

// IdentityFile returns the name and the content of the file that identifies a copy of the log as a journal.
func (c *Cluster) IdentityFile() (name string, content []byte) {
	return journal.IdentityOf(c.o.Identity.UUID, c.o.Identity.Salt)
}

// Segments yields the commands from seq `from` to seq `through` as segments of a journal, as a single server writes them. A
// mark is in the place of a command that has no effect.
func (c *Cluster) Segments(from, through uint64) iter.Seq2[journal.SegmentCopy, error] {
	return func(yield func(journal.SegmentCopy, error) bool) {
		s := journal.SegmentCopy{Volume: from, First: from}
		next := from
		for r, err := range c.commands(from, through) {
			if err == nil && r.Seq != next {
				err = fmt.Errorf("copy log: command %d follows %d", r.Seq, next-1)
			}
			if err != nil {
				yield(journal.SegmentCopy{}, err)
				return
			}
			r.Synced, s.Last, next = r.Seq-1, r.Seq, next+1
			if s.Data = journal.AppendEntry(s.Data, &r); len(s.Data) >= segmentBytes {
				if !yield(s, nil) {
					return
				}
				s = journal.SegmentCopy{Volume: from, First: next}
			}
		}
		if next <= through {
			yield(journal.SegmentCopy{}, fmt.Errorf("copy log: the commands from %d to %d are missing", next, through))
		} else if len(s.Data) > 0 {
			yield(s, nil)
		}
	}
}

// commands yields the commands from seq `from` to seq `through`, which are delivered.
func (c *Cluster) commands(from, through uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		index, err := c.log.FirstIndex()
		c.notes.mu.Lock()
		pos, known := c.notes.positions.before(from - 1)
		last := c.notes.pos.Index
		c.notes.mu.Unlock()
		if known {
			index = max(index, pos.Index+1)
		}
		for err == nil && index <= last {
			var list []*pb.Entry
			if list, err = c.log.Entries(index, last+1, segmentBytes); err != nil {
				break
			}
			for _, e := range list {
				records, failed := node.Records(e)
				if failed != nil {
					err = failed
					break
				}
				for _, r := range records {
					switch {
					case r.Seq < from:
					case r.Seq > through || !yield(r, nil):
						return
					}
				}
			}
			index += uint64(len(list))
		}
		if err != nil {
			yield(journal.Record{}, fmt.Errorf("copy log: %w", err))
		}
	}
}
