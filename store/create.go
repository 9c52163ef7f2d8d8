package store

import "github.com/daybookq/daybook/job"

// create makes a batch. It returns nil for a create without keys, for which no caller waits.
func (a *applying) create(c *job.Create) *Made {
	if c.Once.Given() {
		if made := a.past().made(&c.Once); made != nil {
			return made
		}
	}
	var s *submission
	switch {
	case !c.Into.IsZero():
		s = a.submissionByID(c.Into)
		if refusal := mayAdd(s); refusal != job.Granted {
			return &Made{Refusal: refusal}
		}
	case c.Submission != nil:
		s = a.newSubmission(c)
	}
	var b *batch
	var existing []madeBy
	if c.Lines() > 0 {
		b, existing = a.makeBatch(c, s)
	}
	if len(c.Unique) == 0 && !c.Once.Given() && c.Into.IsZero() {
		return nil
	}
	made := &Made{Batch: job.NewID(a.now.At, a.now.Seq, 0), Seq: a.now.Seq, Lines: c.Lines()}
	if !c.Into.IsZero() {
		made.Batch, made.First = s.id(), made.Batch
	}
	for _, x := range existing {
		made.Existing = append(made.Existing, Existing{int(x.line), x.id})
	}
	made.Group = c.Groups[0]
	if c.Once.Given() {
		d := &done{seq: made.Seq, at: a.now.At, lines: uint32(made.Lines), queueName: queueName{made.Group.Client, made.Group.Type}, existing: existing}
		d.group = group{Attributes: made.Group.Attributes}
		if b != nil {
			d.group = *a.group(b, 0)
		}
		if s != nil {
			d.batch = s.id()
		}
		a.rememberOnce(&c.Once, d)
	}
	return made
}

// makeBatch makes the batch of a create, as a part of a submission unless s is nil. It returns the lines that made no
// job, because an unfinished job has their unique key.
func (a *applying) makeBatch(c *job.Create, s *submission) (b *batch, existing []madeBy) {
	b = &batch{seq: a.now.Seq, at: a.now.At, lines: uint32(c.Lines()), frame: c.Frame, longest: c.Longest, joined: c.Joined}
	groups := make([]group, len(c.Groups))
	first := uint32(0)
	for i := range c.Groups {
		g := &c.Groups[i]
		last := first + uint32(g.Lines) - 1
		groups[i] = group{first: first, last: last, queueID: a.makeQueue(g.Client, g.Type).id, Attributes: g.Attributes}
		first = last + 1
	}
	a.writeGroups(b, groups)
	held := false
	if s != nil {
		a.addPart(s, b)
		held = s.status == job.BatchPaused
	}
	existing = a.takeUniqueKeys(b, c.Unique)
	a.batches.Set(b.seq, b)
	if b.frame != job.NoFrame {
		a.writePages(b, c.Payloads)
	}
	a.o.Set(seqKey(batchTable, b.seq), b.encode())
	holes := existing
	for i := range groups {
		holes = a.admit(b, &groups[i], holes, held)
	}
	for _, x := range existing {
		a.deletePages(b, x.line, x.line)
	}
	a.deleteIfPurged(b)
	return b, existing
}

// writeGroups writes the groups of a batch: in the batch's row if they fit into one page, otherwise in rows of pages.
// It does not add the pages to the cache, because a claim that needs one reads it for many jobs.
func (a *applying) writeGroups(b *batch, groups []group) {
	for rest := groups; len(rest) > 0; {
		n, entry := len(rest), []byte(nil)
		if n > 1 {
			n, entry = cutGroups(rest, a.rules.groupPageBytes)
		}
		last := rest[n-1].last
		if n == len(groups) {
			b.groups = &groupPage{groupPageName: groupPageName{b.seq, last}, groups: groups}
			for i := range groups { // the texts of a request share the memory of the whole request
				groups[i].cloneTexts()
				b.groups.texts += groups[i].texts()
			}
			return
		}
		if entry == nil {
			_, entry = cutGroups(rest, a.rules.groupPageBytes)
		}
		a.o.Set(groupPageName{b.seq, last}.key(), entry)
		if last < b.lines-1 {
			b.groupEnds = append(b.groupEnds, last)
		}
		rest = rest[n:]
	}
}
