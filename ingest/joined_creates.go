package ingest

import (
	"context"
	"fmt"
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
)

// Small creates without keys and batches that wait for the same group of the log share one record. The first of them
// proposes the record, and others add their jobs until the log writes it. So no create waits for others, and each is
// answered when the record is on disk. docs/010-joined-commands.md has the reasons.

const (
	// maxJoinedBytes bounds the fields and the body of a joined record. A larger record would save little, since this
	// size already holds hundreds of jobs. Its payloads fit into one page of the store.
	maxJoinedBytes = 64 << 10
	// A create that joins a record has at most maxJoinedCreate bytes of payloads and of meta, maxJoinedLines lines, and
	// maxJoinedGroups groups. So it has less than maxJoinedBytes: a group takes at most 1 KiB without its meta.
	maxJoinedCreate, maxJoinedLines, maxJoinedGroups = 16 << 10, 256, 16
	// joinedOverhead bounds the bytes of a record besides its groups and payloads. joinedLine bounds the bytes of a job
	// besides them: the framing of its payload, and its share of the number of lines in its group.
	joinedOverhead, joinedLine = 256, 32
)

// joinedCreates are the creates that wait for their record to be written.
type joinedCreates struct {
	proposing chan struct{} // capacity 1; has a value while a create without keys is being proposed

	mu   sync.Mutex    // guards the fields below, and all records
	open *joinedRecord // accepts creates; nil: none
	// checked is the last group that was checked, without lines, and checkedBytes its length in a record. Most creates
	// have the same attributes as the previous create.
	checked      job.Group
	checkedBytes int
}

// joinedRecord is a proposed record that accepts creates until it is written.
type joinedRecord struct {
	tag     waiter // of the record: no caller waits until it is applied
	creates []*joinedCreate
	lines   int
	groups  int // neighbours with equal attributes share a group
	bytes   int // bound on the bytes of fields and body
	closed  bool
}

// joinedCreate is a create that shares a record.
type joinedCreate struct {
	c          *job.Create
	made       *newQueues
	groupBytes int         // bound on the bytes of its groups in a record
	stored     chan answer // capacity 1
}

// joins reports whether a create may share a record.
func joins(c *job.Create) bool {
	if !c.Joined || len(c.Groups) > maxJoinedGroups || len(c.Payloads) > maxJoinedCreate || c.Lines() > maxJoinedLines {
		return false
	}
	meta := 0
	for i := range c.Groups {
		meta += len(c.Groups[i].Meta)
	}
	return meta <= maxJoinedCreate
}

// startJoined begins a create that shares a record; see StartCreate.
func (e *Engine) startJoined(ctx context.Context, c *job.Create, made *newQueues) (wait func() (applied.Made, Receipt, error)) {
	own := joinedCreate{c: c, made: made, stored: make(chan answer, 1)}
	line, err := e.join(ctx, &own)
	if err != nil {
		made.settled(false)
		return func() (applied.Made, Receipt, error) { return applied.Made{}, Receipt{}, err }
	}
	own.eachPending(e.parked.expect)
	return func() (applied.Made, Receipt, error) {
		a, err := e.await(ctx, own.stored)
		if err == nil {
			err = a.err
		}
		if err != nil {
			return applied.Made{}, Receipt{}, err
		}
		first := job.NewID(a.receipt.At, a.receipt.Seq, line)
		return applied.Made{First: first, Seq: a.receipt.Seq, Lines: c.Lines(), Group: c.Groups[0]}, a.receipt, nil
	}
}

// eachPending calls visit with the jobs that the create makes pending.
func (own *joinedCreate) eachPending(visit func(q queueName, jobs int)) {
	for i := range own.c.Groups {
		if g := &own.c.Groups[i]; g.RunAt == 0 {
			visit(queueName{g.Client, g.Type}, g.Lines)
		}
	}
}

// join adds a create to the open record, or to a new one that it proposes. line is its first line in the record.
func (e *Engine) join(ctx context.Context, own *joinedCreate) (line int, err error) {
	j := &e.joined
	if own.groupBytes, err = j.check(own.c); err != nil {
		return 0, err
	}
	if line, ok := j.add(own); ok {
		return line, nil
	}
	if err := j.enter(ctx); err != nil {
		return 0, err
	}
	defer j.leave()
	if line, ok := j.add(own); ok { // another create has proposed a record since
		return line, nil
	}
	r := &joinedRecord{bytes: joinedOverhead, tag: waiter{by: &job.Actor{}}} // its groups name their actors
	r.tag.settled = func(applied bool) {
		for _, own := range r.creates {
			own.made.settled(applied)
			own.eachPending(e.parked.arrived)
		}
	}
	r.add(own)
	if err := e.propose(ctx, j.proposal(r)); err != nil {
		return 0, err
	}
	j.offer(r)
	return 0, nil
}

// proposeAlone proposes a create in a separate record. Creates that are started after it are not added to a record that
// was proposed before it, so that the creates of one goroutine are stored in order.
func (e *Engine) proposeAlone(ctx context.Context, p *journal.Proposal) error {
	if err := e.joined.enter(ctx); err != nil {
		return err
	}
	defer e.joined.leave()
	if err := e.propose(ctx, p); err != nil {
		return err
	}
	e.joined.offer(nil)
	return nil
}

// enter waits until no other create without keys is being proposed, so that the open record is always the last proposed
// record.
func (j *joinedCreates) enter(ctx context.Context) error {
	select {
	case j.proposing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("propose create: %w", ctx.Err())
	}
}

func (j *joinedCreates) leave() { <-j.proposing }

// check fails if the decoder would refuse the create. It returns the length of the create's groups in a record.
func (j *joinedCreates) check(c *job.Create) (groupBytes int, err error) {
	j.mu.Lock()
	known, groupBytes := len(c.Groups) == 1 && sameAttributes(j.checked, c.Groups[0]), j.checkedBytes
	j.mu.Unlock()
	if known {
		return groupBytes, nil
	}
	fields, body := c.Encode()
	if _, err := job.Decode(c.Verb(), fields, body); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	groupBytes = len(fields) + len(body) - len(c.Payloads)
	if len(c.Groups) == 1 {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.checked, j.checkedBytes = c.Groups[0], groupBytes
	}
	return groupBytes, nil
}

// add adds a create to the open record, if it has room. line is the create's first line in the record.
func (j *joinedCreates) add(own *joinedCreate) (line int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r := j.open; r != nil && r.fits(own) {
		line = r.lines
		r.add(own)
		return line, true
	}
	return 0, false
}

// offer lets other creates join a proposed record, unless it is already written. Nil: no record accepts creates.
func (j *joinedCreates) offer(r *joinedRecord) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open = r; r != nil && r.closed {
		j.open = nil
	}
}

// close closes a record, so that no more creates join it.
func (j *joinedCreates) close(r *joinedRecord) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.closed = true
	if j.open == r {
		j.open = nil
	}
}

// cost returns bounds on the bytes and groups that a create adds to the record.
func (r *joinedRecord) cost(own *joinedCreate) (bytes, groups int) {
	bytes = len(own.c.Payloads) + own.c.Lines()*joinedLine
	if n := len(own.c.Groups); n > 1 || len(r.creates) == 0 || !sameAttributes(r.lastGroup(), own.c.Groups[0]) {
		return bytes + own.groupBytes, n
	}
	return bytes, 0
}

func (r *joinedRecord) lastGroup() job.Group {
	groups := r.creates[len(r.creates)-1].c.Groups
	return groups[len(groups)-1]
}

func (r *joinedRecord) fits(own *joinedCreate) bool {
	bytes, groups := r.cost(own)
	return r.bytes+bytes <= maxJoinedBytes && r.groups+groups <= job.MaxGroups
}

func (r *joinedRecord) add(own *joinedCreate) {
	bytes, groups := r.cost(own)
	r.bytes += bytes
	r.groups += groups
	r.lines += own.c.Lines()
	r.creates = append(r.creates, own)
}

// proposal returns the proposal of a record.
func (j *joinedCreates) proposal(r *joinedRecord) *journal.Proposal {
	return &journal.Proposal{
		Lane: journal.Bulk, Verb: (&job.Create{}).Verb(), Tag: &r.tag, Reserve: maxJoinedBytes,
		Fill: func() (fields, body []byte, err error) {
			j.close(r)
			fields, body = r.command().Encode()
			decoded, err := job.Decode((&job.Create{}).Verb(), fields, body)
			if err != nil {
				return nil, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
			}
			if len(fields)+len(body) <= maxDecodedBytes {
				r.tag.cmd = decoded
			}
			return fields, body, nil
		},
		Done: func(seq uint64, at int64, err error) {
			j.close(r)
			if err != nil {
				r.tag.settle(false)
			}
			for _, own := range r.creates {
				own.stored <- answer{receipt: Receipt{seq, at}, err: err}
			}
		},
	}
}

// command returns the single create of a closed record.
func (r *joinedRecord) command() *job.Create {
	c := &job.Create{Joined: true, Frame: r.creates[0].c.Frame, Groups: make([]job.Group, 0, r.groups), Payloads: make([]byte, 0, r.bytes)}
	for _, own := range r.creates {
		if own.c.Frame != c.Frame {
			c.Frame = job.LenFrame // this frame fits any payload, or none
		}
	}
	for _, own := range r.creates {
		for _, g := range own.c.Groups {
			if n := len(c.Groups); n > 0 && sameAttributes(c.Groups[n-1], g) {
				c.Groups[n-1].Lines += g.Lines
			} else {
				c.Groups = append(c.Groups, g)
			}
		}
		c.Longest = max(c.Longest, own.c.Longest)
		c.Payloads = own.appendPayloads(c.Payloads, c.Frame)
	}
	return c
}

// appendPayloads appends the payloads of a create in the given frame, which must fit them.
func (own *joinedCreate) appendPayloads(b []byte, frame job.Frame) []byte {
	body := own.c.Payloads
	if own.c.Frame == frame {
		return append(b, body...)
	}
	for range own.c.Lines() {
		payload, rest, err := own.c.Frame.Next(body)
		if err != nil {
			panic(fmt.Sprintf("ingest: a payload that was checked: %v", err))
		}
		b, body = frame.Append(b, payload), rest
	}
	return b
}

// sameAttributes reports whether two groups are equal except for the number of their lines.
func sameAttributes(a, b job.Group) bool {
	a.Lines, b.Lines = 0, 0
	return a == b
}
