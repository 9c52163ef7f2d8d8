package machine

import (
	"cmp"

	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

// Create makes a batch. It returns nil for a create without keys, for which no caller waits.
func (a *Applying) Create(c *job.Create) *applied.Made {
	if c.Once.Given() {
		if made := a.past().Made(&c.Once); made != nil {
			return made
		}
	}
	var s *row.Submission
	switch {
	case !c.Into.IsZero():
		s = a.submissionInScope(c.Into)
		if refusal := mayAdd(s); refusal != job.Granted {
			return &applied.Made{Refusal: refusal}
		}
	case c.Submission != nil:
		s = a.newSubmission(c)
	}
	var b *row.Batch
	var existing []row.MadeBy
	if c.Lines() > 0 {
		b, existing = a.makeBatch(c, s)
	}
	if len(c.Unique) == 0 && !c.Once.Given() && c.Into.IsZero() {
		return nil
	}
	made := &applied.Made{Batch: job.NewID(a.Now.At, a.Now.Seq, 0), Seq: a.Now.Seq, Lines: c.Lines()}
	if !c.Into.IsZero() {
		made.Batch, made.First = s.Id(), made.Batch
	}
	for _, x := range existing {
		made.Existing = append(made.Existing, applied.Existing{int(x.Line), x.Id})
	}
	made.Group = c.Groups[0]
	made.Group.By = cmp.Or(made.Group.By, a.By.Name)
	if c.Once.Given() {
		d := &row.Done{Seq: made.Seq, At: a.Now.At, Lines: uint32(made.Lines), QueueName: row.QueueName{made.Group.Client, made.Group.Type}, Existing: existing}
		d.Group = row.Group{Attributes: made.Group.Attributes}
		if b != nil {
			d.Group = *a.Group(b, 0)
		}
		if s != nil {
			d.Batch = s.Id()
		}
		a.rememberOnce(&c.Once, d)
	}
	return made
}

// makeBatch makes the batch of a create, as a part of a submission unless s is nil. It returns the lines that made no
// job, because an unfinished job has their unique key.
func (a *Applying) makeBatch(c *job.Create, s *row.Submission) (b *row.Batch, existing []row.MadeBy) {
	b = &row.Batch{Seq: a.Now.Seq, At: a.Now.At, Lines: uint32(c.Lines()), Frame: c.Frame, Longest: c.Longest, Joined: c.Joined}
	groups := make([]row.Group, len(c.Groups))
	first := uint32(0)
	for i := range c.Groups {
		g := &c.Groups[i]
		last := first + uint32(g.Lines) - 1
		groups[i] = row.Group{First: first, Last: last, QueueID: a.makeQueue(g.Client, g.Type).Id, Attributes: g.Attributes}
		groups[i].By = cmp.Or(g.By, a.By.Name)
		first = last + 1
	}
	a.writeGroups(b, groups)
	held := false
	if s != nil {
		a.addPart(s, b, groups)
		held = s.Status == job.BatchPaused
	}
	existing = a.takeUniqueKeys(b, c.Unique)
	a.Batches.Set(b.Seq, b)
	if b.Frame != job.NoFrame {
		a.writePages(b, c.Payloads)
	}
	a.O.Set(row.SeqKey(row.BatchTable, b.Seq), b.Encode())
	holes := existing
	for i := range groups {
		holes = a.admit(b, &groups[i], holes, held)
	}
	for _, x := range existing {
		a.deletePages(b, x.Line, x.Line)
	}
	a.deleteIfPurged(b)
	return b, existing
}

// writeGroups writes the groups of a batch: in the batch's row if they fit into one page, otherwise in rows of pages.
// It does not add the pages to the cache, because a claim that needs one reads it for many jobs.
func (a *Applying) writeGroups(b *row.Batch, groups []row.Group) {
	for rest := groups; len(rest) > 0; {
		n, entry := len(rest), []byte(nil)
		if n > 1 {
			n, entry = row.CutGroups(rest, a.Rules.GroupPageBytes)
		}
		last := rest[n-1].Last
		if n == len(groups) {
			b.Groups = &row.GroupPage{GroupPageName: row.GroupPageName{b.Seq, last}, Groups: groups}
			for i := range groups { // the texts of a request share the memory of the whole request
				groups[i].CloneTexts()
				b.Groups.Texts += groups[i].Texts()
			}
			return
		}
		if entry == nil {
			_, entry = row.CutGroups(rest, a.Rules.GroupPageBytes)
		}
		a.O.Set(row.GroupPageName{b.Seq, last}.Key(), entry)
		if last < b.Lines-1 {
			b.GroupEnds = append(b.GroupEnds, last)
		}
		rest = rest[n:]
	}
}
