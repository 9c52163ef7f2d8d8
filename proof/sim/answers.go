package sim

import (
	"fmt"
	"reflect"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/proof/model/compare"
	"github.com/daybookq/daybook/store/applied"
)

// answer is an answer that a user got to a command.
type answer struct {
	by      *job.Key // of the user; nil: none
	receipt ingest.Receipt
	cmd     job.Command
	result  applied.Result
	docs    []job.Job // of a claim
}

// answer records an answer. The caller holds a.mu.
func (a *account) answer(by *job.Key, r ingest.Receipt, cmd job.Command, result applied.Result, docs ...job.Job) {
	a.answers = append(a.answers, answer{by, r, cmd, result, docs})
}

// push is the jobs of a claim that a stream sent to its runner. The stream had last heard of the runner no later
// than after the command heardAt.
type push struct {
	runner  string
	seq     uint64
	heardAt uint64
}

// command is a command of the journal, with its result, and the documents of the jobs that a claim handed out.
type command struct {
	by         job.Actor
	verb, text string
	result     applied.Result
	docs       map[job.ID]job.Job
}

// checkAccount checks that the journal has all acknowledged creates, and that it leads to all answers.
func (b *reference) checkAccount() error {
	a := b.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, tag := range a.tags() {
		if of := a.batches[tag]; of.result == stored && of.journalSeq == 0 {
			a.figures.Lost += len(of.payloads)
			return fmt.Errorf("create %s was acknowledged as batch %v and is not in the journal", tag, of.id)
		}
	}
	for _, j := range b.m.AllJobs(func(j *model.Job) bool { return j.Status != job.Purged }) {
		if b := a.batchOf(j.ID); b != nil && b.result == stored {
			a.figures.Read++
		}
	}
	for _, of := range a.submissions {
		s := b.m.Submission(of.id())
		if s == nil {
			continue
		}
		ended, _ := s.Results()
		a.figures.Results += len(ended)
		doc := s.Document()
		if err := a.sawEnd(of, doc.Status, doc.EndedAt); err != nil {
			return err
		}
	}
	return b.checkAnswers()
}

// checkAnswers checks all new answers against the commands of the journal. The caller holds a.mu.
func (b *reference) checkAnswers() error {
	a := b.w.account
	for i := range a.answers {
		if err := b.checkAnswer(&a.answers[i]); err != nil {
			return fmt.Errorf("seq %d, at %d, the answer to %s %+v: %w", a.answers[i].receipt.Seq, a.answers[i].receipt.At, a.answers[i].cmd.Verb(), a.answers[i].cmd, err)
		}
	}
	a.answers = nil
	for _, p := range a.pushes {
		for _, seq := range a.silences[p.runner] {
			if p.heardAt < seq && seq < p.seq {
				return fmt.Errorf("%s gets jobs at %d, and it has proved silent at %d since its stream heard of it at %d", p.runner, p.seq, seq, p.heardAt)
			}
		}
	}
	a.pushes = nil
	return nil
}

// checkAnswer checks an answer: the journal has its command at its place, and the result of that command is the answer.
func (b *reference) checkAnswer(x *answer) error {
	seq := x.receipt.Seq
	switch result := x.result.(type) { // an answer to a repeated request is the first one
	case *applied.Claimed:
		if result.Replayed {
			seq = result.Seq
		}
	case *applied.Ended:
		if result.Replayed {
			seq = result.Seq
		}
	}
	c := b.commands[seq]
	if c == nil {
		return fmt.Errorf("the journal ends at %d", b.s.Applied())
	}
	if c.verb != x.cmd.Verb() {
		return fmt.Errorf("record %d is %s %s", seq, c.verb, c.text)
	}
	if err := sameActor(&c.by, x.by); err != nil {
		return fmt.Errorf("record %d: %w", seq, err)
	}
	if err := b.w.account.withinScope(x); err != nil {
		return err
	}
	got, want := shown(x.result), shown(c.result)
	if made, is := got.(*applied.Made); is && (want == nil || made.Replayed) {
		return nil // account.created has checked it
	}
	if claimed, is := got.(*applied.Claimed); is {
		if claimed.Replayed && len(claimed.Runs) == 0 { // nobody knows the claim any more
			return nil
		}
		for i := range x.docs {
			doc, is := c.docs[x.docs[i].ID]
			if !is {
				return fmt.Errorf("it has job %v, which the claim did not hand out", x.docs[i].ID)
			}
			if claimed.Replayed {
				continue // the documents are read again
			}
			if err := compare.HandedOut(x.docs[i], doc); err != nil {
				return fmt.Errorf("job %v: %w", doc.ID, err)
			}
		}
		claimed.Replayed, claimed.LeaseMs, want.(*applied.Claimed).LeaseMs = false, 0, 0
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("it is %+v, and the journal leads to %+v", got, want)
	}
	return nil
}

// shown returns the part of a result that its first caller and later callers see.
func shown(result applied.Result) applied.Result {
	switch r := result.(type) {
	case *applied.Claimed:
		return model.Shown(r)
	case *applied.Ended:
		return &applied.Ended{Results: r.Results, All: r.All, Refusal: r.Refusal, Denied: r.Denied}
	}
	return result
}
