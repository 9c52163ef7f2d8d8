package sim

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/proof/model/compare"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
)

// reference is a store that never fails and never restarts, beside the model of the rules. Both are made from the journal
// alone, from the first record on. The model must allow all results and moves of the store. A server's store must have the
// same bytes, whether they were written by live operation, by replay after a crash, or from a base that was flushed long
// ago; and a reader of the server must find what the model has.
type reference struct {
	w        *world
	s        *store.Store
	m        *model.Model
	commands map[uint64]*command // by seq
}

func openReference(w *world) (*reference, error) {
	s, err := store.Open("book", w.storeOptions(vfs.NewMem()))
	return &reference{w: w, s: s, commands: map[uint64]*command{}}, err
}

// read applies the journal up to seq to, which must be durable. It checks that somebody posted each create, and that the
// journal has it once.
func (b *reference) read(to uint64) error {
	if b.m == nil {
		uuid, err := identity(b.w.root())
		if err != nil {
			return err
		}
		if err := b.adopt(uuid); err != nil {
			return err
		}
	}
	for r, err := range b.records(to) {
		if err == nil {
			err = b.apply(&r)
		}
		if err != nil {
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
	}
	if b.s.Applied() != to {
		return fmt.Errorf("the journal ends at %d, the server has applied %d", b.s.Applied(), to)
	}
	return nil
}

// adopt gives the store and the model the UUID of the journal.
func (b *reference) adopt(uuid string) error {
	bounds := model.Standard
	if b.w.small {
		bounds = model.Small
	}
	b.m = model.New(uuid, bounds)
	return b.s.Adopt(uuid)
}

// apply applies the next record of the journal.
func (b *reference) apply(r *journal.Record) error {
	by, cmd, err := job.DecodeRecord(r.Verb, r.Fields, bytes.Clone(r.Body)) // the record is valid only now
	if err != nil {
		return err
	}
	got, err := b.s.ApplyRecord(r.Seq, r.At, &job.Place{}, &by, cmd)
	if err == nil {
		err = b.s.Commit()
	}
	if err != nil {
		return err
	}
	seen := &model.Seen{
		Effects: b.s.Effects(),
		Session: func(id job.ID) bool { _, err := b.s.SessionDocument(id); return err == nil },
		Batch:   func(id job.ID) bool { _, err := b.s.Batch(id); return err == nil },
		Sweep:   func(id job.ID) bool { doc, err := b.s.Sweep(id); return err == nil && doc.FinishedAt == 0 },
	}
	if err := b.m.Compare(r.Seq, r.At, &by, cmd, got, seen); err != nil {
		return fmt.Errorf("%s %s: %w", r.Verb, r.Fields, err)
	}
	b.note(r, &by, cmd, got)
	b.w.account.silent(r.Seq, b.s.TakeSilent())
	b.s.TakeReadied()
	b.w.account.figures.Commands++
	return nil
}

// note records a command and its result, and counts what the journal shows of it.
func (b *reference) note(r *journal.Record, by *job.Actor, cmd job.Command, got applied.Result) {
	c := &command{by: *by, verb: r.Verb, text: string(r.Fields), result: got}
	b.commands[r.Seq] = c
	f := &b.w.account.figures
	switch got := got.(type) {
	case *applied.Claimed:
		if of := b.m.Claims[got.Claim]; of != nil && !got.Replayed {
			c.docs = map[job.ID]job.Job{}
			for _, j := range of.Handed {
				c.docs[j.ID] = b.m.Document(j)
			}
		}
	case *applied.Ended:
		for _, j := range b.m.MadeBy(r.Seq) {
			if bytes.HasPrefix(b.m.Document(j).Payload, []byte("chain-")) {
				f.Chained++
			} else {
				f.Followed++
			}
		}
	case *applied.Swept:
		if !got.Sweep.IsZero() {
			f.Sweeps++
		}
	case *applied.RunnerLost:
		f.Losses++
	}
}

func identity(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(ingest.JournalDir(root), "identity"))
	if err != nil {
		return "", err
	}
	var v int
	var uuid string
	_, err = fmt.Sscanf(string(text), "daybook-journal v=%d uuid=%s ", &v, &uuid)
	return uuid, err
}

// records yields the records that were not read yet, up to seq to. It begins with the volumes in the archive.
func (b *reference) records(to uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		next := b.s.Applied() + 1
		if next > to {
			return
		}
		for _, dir := range []string{filepath.Join(b.w.root(), "archive"), ingest.JournalDir(b.w.root())} {
			if _, err := os.Stat(dir); err != nil {
				continue
			}
			for r, err := range journal.Scan(dir, next) {
				if err == nil && r.Seq != next {
					err = fmt.Errorf("record %d follows %d", r.Seq, next-1)
				}
				if err == nil && r.Verb == "create" {
					err = b.w.account.journaledCreate(&r)
				}
				if !yield(r, err) || err != nil {
					return
				}
				if next++; next > to {
					return // later records may be incomplete
				}
			}
		}
	}
}

// journaledCreate compares a create in the journal with the posted one.
func (a *account) journaledCreate(r *journal.Record) error {
	by, cmd, err := job.DecodeRecord(r.Verb, r.Fields, r.Body)
	if err != nil {
		return err
	}
	c := cmd.(*job.Create)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !c.Joined {
		return a.journaledBatch(r, &by, c, job.NewID(r.At, r.Seq, 0))
	}
	if c.Lines() > 1 {
		a.figures.Joined += c.Lines()
	}
	rest := c.Payloads // of one create after the other
	for line := 0; line < c.Lines(); {
		first, _, err := c.Frame.Next(rest)
		if err != nil {
			return err
		}
		b := a.batches[tagOf(first)]
		if b == nil || !b.create.Joined {
			return fmt.Errorf("record %d has a create that nobody posted: %q", r.Seq, first)
		}
		part := &job.Create{Frame: b.create.Frame}
		for range b.payloads {
			var payload []byte
			if payload, rest, err = c.Frame.Next(rest); err != nil {
				return err
			}
			part.Payloads = part.Frame.Append(part.Payloads, payload)
		}
		if got, want := c.Groups[groupOf(c, line)].By, b.by.By().Name; by.Name == "" && got != want { // of a record that several users share, each group names its own
			return fmt.Errorf("record %d has create %q of %q, and the request was of %q", r.Seq, b.tag, got, want)
		}
		actor := by
		if by.Name == "" {
			actor = *b.by.By()
		}
		if err := a.journaledBatch(r, &actor, part, job.NewID(r.At, r.Seq, line)); err != nil {
			return err
		}
		line += len(b.payloads)
	}
	return nil
}

// groupOf returns the number of the group of a line.
func groupOf(c *job.Create, line int) (n int) {
	for n = range c.Groups {
		if line -= c.Groups[n].Lines; line < 0 {
			break
		}
	}
	return n
}

func sameSubmission(a, b *job.Submission) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Metadata, y.Metadata = nil, nil
	return reflect.DeepEqual(x, y) && string(a.Metadata) == string(b.Metadata)
}

// tag returns the tag of a create in the journal. For a batch with attributes, which may be empty, this is its name.
func tag(c *job.Create) (string, error) {
	if c.Submission != nil {
		return c.Submission.Name, nil
	}
	first, _, err := c.Frame.Next(c.Payloads)
	return tagOf(first), err
}

// journaledBatch compares one create in the journal, whose first job has the given id, with the posted one.
func (a *account) journaledBatch(r *journal.Record, by *job.Actor, c *job.Create, id job.ID) error {
	first, err := tag(c)
	if err != nil {
		return err
	}
	b := a.batches[first]
	switch {
	case b == nil:
		return fmt.Errorf("record %d is a create that nobody posted: %q", r.Seq, first)
	case sameActor(by, b.by) != nil:
		return fmt.Errorf("create %q: record %d: %w", b.tag, r.Seq, sameActor(by, b.by))
	case b.journalSeq != 0 && c.Once.Given():
		return nil // a repeat was journaled again; Apply recognizes its key and makes no job
	case b.journalSeq != 0:
		return fmt.Errorf("create %q is in the journal twice, as records %d and %d", b.tag, b.journalSeq, r.Seq)
	case b.result == rejected:
		return fmt.Errorf("create %q was answered as not stored, and the journal has it as record %d", b.tag, r.Seq)
	case b.result == stored && id != b.id:
		return fmt.Errorf("create %q was answered as batch %v, and is batch %v in the journal", b.tag, b.id, id)
	case string(c.Payloads) != string(b.create.Payloads):
		return fmt.Errorf("create %q has other bytes in the journal than the producer posted", b.tag)
	case c.Into != b.create.Into || !sameSubmission(c.Submission, b.create.Submission):
		return fmt.Errorf("create %q is in the journal as %+v into %v, and posted was %+v into %v", b.tag, c.Submission, c.Into, b.create.Submission, b.create.Into)
	}
	b.journalSeq = r.Seq
	a.know(b, id)
	return nil
}

// compare checks that the server's store has the same rows as the reference store, and breaks no invariant.
func (b *reference) compare(live *ingest.Engine) error {
	applied := live.Queries().Applied()
	if err := b.read(applied); err != nil {
		return err
	}
	want, wantRows, err := b.s.Digest()
	if err != nil {
		return err
	}
	got, gotRows, err := live.Queries().Digest()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("at seq %d the server's store has rows %v, and a store made from the journal has rows %v", applied, gotRows, wantRows)
	}
	first := ""
	problems, err := live.Check(func(problem string) bool { first = problem; return false })
	if err == nil && problems > 0 {
		err = fmt.Errorf("the check of the store found: %s", first)
	}
	if err == nil {
		err = compare.All(live.Queries(), b.m)
	}
	for _, t := range b.w.tenants {
		if err == nil {
			err = b.compareTenant(live.Queries(), t)
		}
	}
	return err
}
