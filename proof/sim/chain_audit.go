package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job"
)

// chainAudit compares the chained jobs with the completions in the journal. A completion creates jobs if and only if it
// ended the run of the job before them. The document of that job shows this: its claim, its outcome and the time. So a
// completion that was refused, or that repeats an earlier one, creates no jobs. It does not matter whether anybody got
// the answer.
type chainAudit struct {
	u      *audit
	listed map[job.ID]job.Job    // all documents
	made   map[uint64][]*job.Job // the chained jobs, by the seq of their completion, in order
	ends   map[job.ID]*runEnd    // of all jobs that outcomes ended
	held   map[claimEnd][]job.ID // the same jobs
	unsure map[job.ID]bool       // jobs that were deleted after their retention, and of whose end nobody knows
	keyed  map[[3]string][]*job.Job

	chained, followed int
}

// runEnd describes how the last run of a job ended.
type runEnd struct {
	claimEnd
	code     job.Code
	exitCode int
	found    bool // the completion that ended it was found
}

// claimEnd is a claim that ended runs, and the time.
type claimEnd struct {
	claim job.ID
	at    int64
}

// link is a job that a completion creates.
type link struct {
	group   job.Group // including the attributes that it inherits
	follows bool      // on_complete creates it
	payload string
	key     string // its unique key: if another unfinished job has it, no job is created
	sure    bool   // false: it is unknown whether the completion was refused
	found   bool
}

func (l *link) String() string {
	return fmt.Sprintf("a job of %s/%s with payload %.80q, key %q, %+v", l.group.Client, l.group.Type, l.payload, l.key, l.group.Attributes)
}

// is reports whether doc is the document of the job.
func (l *link) is(doc *job.Job) bool {
	got, want := doc.Attributes, l.group.Attributes
	if doc.Status == job.Deferred && (doc.RunAttempts > 0 || doc.Code != job.NoCode) {
		got.RunAt = want.RunAt // the document shows when the next run is due
	}
	if doc.Status == job.Active {
		got.LeaseMs = want.LeaseMs // the document shows the lease of the claim
	}
	return got == want && doc.Client == l.group.Client && doc.Type == l.group.Type && doc.Batch.IsZero() && string(doc.Payload) == l.payload && doc.UniqueKey == l.key
}

// checkChains checks that each accepted outcome created its jobs once, that nothing else created chained jobs, and that
// their documents are right. It returns how many of these jobs outcomes created, and how many followed jobs that
// completed.
func (u *audit) checkChains(listed map[job.ID]job.Job) (chained, followed int, err error) {
	c := &chainAudit{
		u: u, listed: listed, made: map[uint64][]*job.Job{}, ends: map[job.ID]*runEnd{}, held: map[claimEnd][]job.ID{},
		unsure: map[job.ID]bool{}, keyed: map[[3]string][]*job.Job{},
	}
	for id, doc := range listed {
		if doc.Hops > 0 {
			c.made[uint64(id.LowSeq())] = append(c.made[uint64(id.LowSeq())], &doc)
		}
		if (doc.Status == job.Completed || doc.Status == job.Failed) && doc.Why == job.Reported {
			c.ended(id, claimEnd{doc.Claim, doc.CompletedAt}, doc.Code, doc.ExitCode)
		}
	}
	for id := range u.a.uncertain { // some of them were never handed out
		if _, is := listed[id]; !is && u.mayHaveEnded(id) {
			c.unsure[id] = true
		}
	}
	for id, l := range u.jobs {
		if _, is := listed[id]; !is && !c.unsure[id] && l.status.Terminal() {
			c.ended(id, claimEnd{l.endedBy, l.at}, l.code, l.exitCode)
		}
	}
	var missing []func() error
	for i := range u.a.completions {
		of := &u.a.completions[i]
		links, err := c.links(of)
		if err == nil {
			err = c.match(of, links)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("completion %d, at %d, %+v: %w", of.seq, of.at, of.cmd, err)
		}
		for i := range links {
			if l := &links[i]; !l.found && l.sure {
				missing = append(missing, func() error { return c.checkMissing(of, l) })
			}
		}
	}
	for _, docs := range c.made {
		return 0, 0, fmt.Errorf("job %v is there, and the journal has no completion of that seq: %+v", docs[0].ID, *docs[0])
	}
	for id, e := range c.ends {
		if !e.found {
			return 0, 0, fmt.Errorf("job %v was ended at %d by claim %v with %v %d, and the journal has no such completion", id, e.at, e.claim, e.code, e.exitCode)
		}
	}
	for _, check := range missing {
		if err := check(); err != nil {
			return 0, 0, err
		}
	}
	return c.chained, c.followed, c.checkKeys()
}

// ended records how a job ended, if its outcome may create jobs.
func (c *chainAudit) ended(id job.ID, by claimEnd, code job.Code, exitCode int) {
	if (code == job.OK || code == job.Fail) && !c.u.a.isMoved(id) {
		c.ends[id] = &runEnd{claimEnd: by, code: code, exitCode: exitCode}
		c.held[by] = append(c.held[by], id)
	}
}

// endedBy reports whether a completion ended the run of a job with an outcome. sure is false if this is unknown. A second
// completion of the same claim, with the same outcome and at the same time, is a repeat. A completion without a claim did
// not end the run of a later claim.
func (c *chainAudit) endedBy(of *completion, id job.ID, o *job.Outcome) (is, sure bool) {
	if c.unsure[id] {
		return true, false
	}
	e := c.ends[id]
	if e != nil && of.cmd.Claim.IsZero() && uint64(e.claim.LowSeq()) > of.seq {
		return false, true
	}
	if e == nil || e.found || e.at != of.at || !of.cmd.Claim.IsZero() && of.cmd.Claim != e.claim || !o.Same(e.code, e.exitCode) {
		return false, true
	}
	e.found = true
	return true, true
}

// links returns the jobs that a completion creates.
func (c *chainAudit) links(of *completion) (links []link, err error) {
	named := map[job.ID]bool{}
	end := func(id job.ID, o *job.Outcome) {
		if is, sure := c.endedBy(of, id, o); is && err == nil {
			var more []link
			more, err = c.linksOf(id, o, of.at)
			for i := range more {
				more[i].sure = sure
			}
			links = append(links, more...)
		}
	}
	for i := range of.cmd.Outcomes {
		o := &of.cmd.Outcomes[i]
		named[o.ID] = true
		end(o.ID, o)
	}
	if of.cmd.All == nil {
		return links, err
	}
	for _, id := range c.held[claimEnd{of.cmd.Claim, of.at}] {
		if !named[id] {
			end(id, of.cmd.All)
		}
	}
	for id := range c.u.claims[of.cmd.Claim] {
		if c.unsure[id] && !named[id] {
			end(id, of.cmd.All)
		}
	}
	return links, err
}

// linksOf returns the jobs that an outcome creates.
func (c *chainAudit) linksOf(id job.ID, o *job.Outcome, at int64) (links []link, err error) {
	if o.Code != job.OK && o.Code != job.Fail {
		return nil, nil
	}
	var from job.Group
	if b := c.u.a.batchOf(id); b != nil {
		from = *b.groups[b.line(id)]
	} else if doc, is := c.listed[id]; is {
		from = job.Group{Client: doc.Client, Type: doc.Type, Attributes: doc.Attributes}
	} else {
		return nil, fmt.Errorf("nobody knows job %v", id)
	}
	add := func(g job.Group, payload, key string, follows bool) {
		if g.Lines, g.Hops = 0, from.Hops+1; g.Client == "" {
			g.Client = from.Client
		}
		if g.Meta == "" {
			g.Meta = from.Meta
		}
		if g.Traceparent == "" {
			g.Traceparent = from.Traceparent
		}
		links = append(links, link{group: g, follows: follows, payload: payload, key: key})
	}
	if o.Then != nil {
		rest, keys := o.Then.Payloads, map[int]string{}
		for _, u := range o.Then.Unique {
			keys[u.Line] = u.Key
		}
		for _, g := range o.Then.Groups {
			for range g.Lines {
				payload, after, err := o.Then.Frame.Next(rest)
				if err != nil {
					return nil, err
				}
				add(g, string(payload), keys[len(links)], false)
				rest = after
			}
		}
	}
	if o.Code != job.OK || from.OnComplete == "" {
		return links, nil
	}
	g, delayMs, err := from.OnComplete.Parse()
	if err != nil {
		return nil, err
	}
	if delayMs > 0 {
		g.RunAt = at + delayMs
	}
	switch {
	case o.OutputKind != job.Nothing:
		g.Kind = o.OutputKind
		add(g, string(o.Output), "", true)
	case o.OutputAddr != "":
		g.Kind = job.Text
		add(g, o.OutputAddr, "", true)
	default:
		add(g, "", "", true)
	}
	return links, nil
}

// match finds the link of each chained job with the seq of a completion.
func (c *chainAudit) match(of *completion, links []link) error {
	docs := c.made[of.seq]
	delete(c.made, of.seq)
	slices.SortFunc(docs, func(a, b *job.Job) int { return cmp.Compare(a.ID.Line(), b.ID.Line()) })
	for _, doc := range docs {
		var l *link
		for i := range links {
			if next := &links[i]; !next.found && next.is(doc) && (l == nil || next.sure && !l.sure) {
				l = next
			}
		}
		if l == nil {
			return fmt.Errorf("job %v is there, and is none of the %d jobs that the completion creates: %+v", doc.ID, len(links), *doc)
		}
		if l.found = true; l.follows {
			c.followed++
		} else {
			c.chained++
		}
		if doc.ID.At() != of.at || doc.CreatedAt != of.at {
			return fmt.Errorf("job %v was created at %d", doc.ID, doc.CreatedAt)
		}
		if first, is := c.u.chained[doc.ID]; is && first < l.group.RunAt {
			return fmt.Errorf("job %v is handed out %d ms before its run_at", doc.ID, l.group.RunAt-first)
		}
		if l.key != "" {
			name := [3]string{doc.Client, doc.Type, l.key}
			c.keyed[name] = append(c.keyed[name], doc)
		}
		if err := c.u.survived(doc); err != nil {
			return err
		}
		if err := c.u.checkRuns(doc); err != nil {
			return err
		}
	}
	for id := range c.u.chained {
		if _, is := c.listed[id]; !is && uint64(id.LowSeq()) == of.seq {
			return fmt.Errorf("job %v was handed out, and no longer exists", id)
		}
	}
	return nil
}

// checkMissing checks a missing job that a completion should have created: this is right only if another job with its
// unique key had not ended.
func (c *chainAudit) checkMissing(of *completion, l *link) error {
	if l.key != "" && slices.ContainsFunc(c.keyed[[3]string{l.group.Client, l.group.Type, l.key}], func(other *job.Job) bool {
		return uint64(other.ID.LowSeq()) <= of.seq && (!other.Status.Terminal() || other.CompletedAt >= of.at)
	}) {
		return nil
	}
	c.u.a.figures.Lost++
	return fmt.Errorf("completion %d, at %d, was accepted, and a job that it creates is missing: %v", of.seq, of.at, l)
}

// checkKeys checks that no two jobs with the same unique key were unfinished at the same time.
func (c *chainAudit) checkKeys() error {
	for name, docs := range c.keyed {
		slices.SortFunc(docs, func(a, b *job.Job) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		for i, doc := range docs[1:] {
			if before := docs[i]; !before.Status.Terminal() || before.CompletedAt > doc.CreatedAt {
				return fmt.Errorf("jobs %v and %v have the unique key %q and were both unfinished at %d", before.ID, doc.ID, name[2], doc.CreatedAt)
			}
		}
	}
	return nil
}
