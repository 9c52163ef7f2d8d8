package store

import "github.com/daybookq/daybook/job"

// create makes a batch. It returns nil for one without keys, for which no caller waits.
func (a *applying) create(c *job.Create) *Made {
	if c.Once.Given() {
		if made := a.past().made(&c.Once); made != nil {
			return made
		}
	}
	b, existing := a.makeBatch(c)
	if len(c.Unique) == 0 && !c.Once.Given() {
		return nil
	}
	made := &Made{Batch: b.id(), Seq: b.seq, Lines: int(b.lines)}
	for _, x := range existing {
		made.Existing = append(made.Existing, Existing{int(x.line), x.id})
	}
	made.Group = c.Groups[0]
	if c.Once.Given() {
		a.rememberOnce(&c.Once, &done{
			seq: b.seq, at: b.at, lines: b.lines, group: b.groups[0], queueName: queueName{made.Group.Client, made.Group.Type}, existing: existing,
		})
	}
	return made
}

// makeBatch makes the batch of a create. It returns the lines that made no job, because an unfinished one has their
// unique key.
func (a *applying) makeBatch(c *job.Create) (b *batch, existing []madeBy) {
	b = &batch{seq: a.now.Seq, at: a.now.At, lines: uint32(c.Lines()), frame: c.Frame, longest: c.Longest, joined: c.Joined}
	first := uint32(0)
	for i := range c.Groups {
		g := &c.Groups[i]
		last := first + uint32(g.Lines) - 1
		b.groups = append(b.groups, group{first: first, last: last, queueID: a.makeQueue(g.Client, g.Type).id, Attributes: g.Attributes})
		first = last + 1
	}
	existing = a.takeUniqueKeys(b, c.Unique)
	a.batches.Set(b.seq, b)
	if b.frame != job.NoFrame {
		a.writePages(b, c.Payloads)
	}
	a.o.Set(seqKey(batchTable, b.seq), b.encode())
	holes := existing
	for i := range b.groups {
		holes = a.admit(b, &b.groups[i], holes)
	}
	for _, x := range existing {
		a.deletePages(b, x.line, x.line)
	}
	a.deleteIfPurged(b)
	return b, existing
}
