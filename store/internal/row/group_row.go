package row

import (
	"encoding/binary"
	"unsafe"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Group is a group of a batch. It names its lines by their ends and its queue by number.
type Group struct {
	First, Last uint32
	QueueID     uint32
	job.Attributes
}

// GroupPage is some consecutive groups of a batch. A batch has up to a thousand groups, of several kilobytes each if
// jobs have much meta. They are in pages, so that a lookup of one line reads and decodes only one page. Like a batch's
// other attributes, groups never change.
type GroupPage struct {
	GroupPageName
	Groups []Group
	// texts is the number of bytes that the texts of all groups share.
	Texts int
}

// GroupPageName identifies a page of groups, in its row and in the cache, by the batch and its last line.
type GroupPageName struct {
	Seq  uint64
	Last uint32
}

// Encode leaves out first, which follows from the group before.
func (g *Group) Encode(e *lsm.Encoder) {
	e.Uint(uint64(g.Last))
	e.Uint(uint64(g.QueueID))
	*e = g.AppendRow(*e)
}

// groupNumberBytes is about how many bytes the numbers of a group take.
const groupNumberBytes = 50

// GroupBytes is the smallest size of a group's encoding.
const GroupBytes = 2 + job.MinAttributesRow

func DecodeGroup(d *lsm.Decoder, text string) (g Group) {
	g.Last, g.QueueID = uint32(d.Uint()), uint32(d.Uint())
	rest, err := g.ParseRow(*d, text)
	if err != nil {
		lsm.Fail("decode", lsm.ErrShortRow)
	}
	*d = rest
	return g
}

// decodeGroups decodes n groups. They must tile the lines from first to the last one of the page.
func decodeGroups(name GroupPageName, first uint32, n int, d *lsm.Decoder) *GroupPage {
	p := &GroupPage{GroupPageName: name, Groups: make([]Group, n)}
	text := string(*d)
	for i := range p.Groups {
		g := &p.Groups[i]
		*g = DecodeGroup(d, text)
		g.First = first
		if g.First > g.Last || g.Last > name.Last {
			lsm.Contradict("decode", "group %d has lines %d-%d, and its page ends at line %d", i, g.First, g.Last, name.Last)
		}
		first = g.Last + 1
	}
	if first != name.Last+1 {
		lsm.Contradict("decode", "the lines up to %d are not those of its %d groups", name.Last, n)
	}
	p.Texts = len(text)
	return p
}

// DecodeGroupPage decodes the row of a page of groups, which begins with their number.
func DecodeGroupPage(name GroupPageName, first uint32, value []byte) *GroupPage {
	d := lsm.Decoder(value)
	return decodeGroups(name, first, d.Count(GroupBytes), &d)
}

// Group returns the group that a line of the page belongs to.
func (p *GroupPage) Group(line uint32) *Group {
	lo, hi := 0, len(p.Groups)-1
	for lo < hi {
		if mid := (lo + hi) / 2; p.Groups[mid].Last < line {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return &p.Groups[lo]
}

// Size is about how many bytes of memory a page takes with its place in the cache.
func (p *GroupPage) Size() int {
	return 150 + len(p.Groups)*int(unsafe.Sizeof(Group{})) + p.Texts
}

// Of returns the group in the form in which a create named it, without the number of its lines.
func (g *Group) Of(name QueueName) job.Group {
	return job.Group{Client: name.Client, Type: name.Typ, Attributes: g.Attributes}
}

func (n GroupPageName) Key() string { return LineKey(GroupTable, n.Seq, n.Last) }

// CutGroups cuts a page of about PageBytes off the front of the groups. It returns how many groups the page has, and
// its row.
func CutGroups(groups []Group, pageBytes int) (n int, row []byte) {
	size := binary.MaxVarintLen16 // of n, which is written before the groups once it is known
	for i := 0; i < len(groups) && size < pageBytes; i++ {
		size += groups[i].Texts() + groupNumberBytes
	}
	e := make(lsm.Encoder, binary.MaxVarintLen16, size)
	for n < len(groups) && len(e)-binary.MaxVarintLen16 < pageBytes {
		groups[n].Encode(&e)
		n++
	}
	number := binary.AppendUvarint(nil, uint64(n))
	row = e[binary.MaxVarintLen16-len(number):]
	copy(row, number)
	return n, row
}
