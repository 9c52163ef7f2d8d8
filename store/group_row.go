package store

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// group is a group of a batch. It names its lines by their ends and its queue by number.
type group struct {
	first, last uint32
	queueID     uint32
	job.Attributes
}

// groupPage is some consecutive groups of a batch. A batch has up to a thousand groups, of several kilobytes each if
// jobs have much meta. They are in pages, so that a lookup of one line reads and decodes only one page. Like a batch's
// other attributes, groups never change.
type groupPage struct {
	groupPageName
	groups []group
	// texts is the number of bytes that the texts of all groups share.
	texts int
}

// groupPageName identifies a page of groups, in its row and in the cache, by the batch and its last line.
type groupPageName struct {
	seq  uint64
	last uint32
}

// encode leaves out first, which follows from the group before.
func (g *group) encode(e *lsm.Encoder) {
	e.Uint(uint64(g.last))
	e.Uint(uint64(g.queueID))
	*e = g.AppendRow(*e)
}

// groupNumberBytes is about how many bytes the numbers of a group take.
const groupNumberBytes = 50

// groupBytes is the smallest size of a group's encoding.
const groupBytes = 2 + job.MinAttributesRow

func decodeGroup(d *lsm.Decoder, text string) (g group) {
	g.last, g.queueID = uint32(d.Uint()), uint32(d.Uint())
	rest, err := g.ParseRow(*d, text)
	if err != nil {
		lsm.Fail("decode", lsm.ErrShortRow)
	}
	*d = rest
	return g
}

// cloneTexts copies the texts of a group, so that it keeps no other memory alive.
func (g *group) cloneTexts() {
	g.Traceparent, g.Meta, g.OnComplete = strings.Clone(g.Traceparent), job.Meta(strings.Clone(string(g.Meta))), job.FollowOn(strings.Clone(string(g.OnComplete)))
}

// texts returns the number of bytes in the texts of a group.
func (g *group) texts() int { return len(g.Traceparent) + len(g.Meta) + len(g.OnComplete) }

// decodeGroups decodes n groups. They must tile the lines from first to the last one of the page.
func decodeGroups(name groupPageName, first uint32, n int, d *lsm.Decoder) *groupPage {
	p := &groupPage{groupPageName: name, groups: make([]group, n)}
	text := string(*d)
	for i := range p.groups {
		g := &p.groups[i]
		*g = decodeGroup(d, text)
		g.first = first
		if g.first > g.last || g.last > name.last {
			lsm.Contradict("decode", "group %d has lines %d-%d, and its page ends at line %d", i, g.first, g.last, name.last)
		}
		first = g.last + 1
	}
	if first != name.last+1 {
		lsm.Contradict("decode", "the lines up to %d are not those of its %d groups", name.last, n)
	}
	p.texts = len(text)
	return p
}

// decodeGroupPage decodes the row of a page of groups, which begins with their number.
func decodeGroupPage(name groupPageName, first uint32, value []byte) *groupPage {
	d := lsm.Decoder(value)
	return decodeGroups(name, first, d.Count(groupBytes), &d)
}

// group returns the group that a line of the page belongs to.
func (p *groupPage) group(line uint32) *group {
	lo, hi := 0, len(p.groups)-1
	for lo < hi {
		if mid := (lo + hi) / 2; p.groups[mid].last < line {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return &p.groups[lo]
}

// size is about how many bytes of memory a page takes with its place in the cache.
func (p *groupPage) size() int {
	return 150 + len(p.groups)*int(unsafe.Sizeof(group{})) + p.texts
}

// of returns the group in the form in which a create named it, without the number of its lines.
func (g *group) of(name queueName) job.Group {
	return job.Group{Client: name.client, Type: name.typ, Attributes: g.Attributes}
}

func (n groupPageName) key() string { return lineKey(groupTable, n.seq, n.last) }

// cutGroups cuts a page of about pageBytes off the front of the groups. It returns how many groups the page has, and
// its row.
func cutGroups(groups []group, pageBytes int) (n int, row []byte) {
	size := binary.MaxVarintLen16 // of n, which is written before the groups once it is known
	for i := 0; i < len(groups) && size < pageBytes; i++ {
		size += groups[i].texts() + groupNumberBytes
	}
	e := make(lsm.Encoder, binary.MaxVarintLen16, size)
	for n < len(groups) && len(e)-binary.MaxVarintLen16 < pageBytes {
		groups[n].encode(&e)
		n++
	}
	number := binary.AppendUvarint(nil, uint64(n))
	row = e[binary.MaxVarintLen16-len(number):]
	copy(row, number)
	return n, row
}
