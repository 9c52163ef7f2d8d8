package command

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// chainedBytes is about the memory for a job that an outcome creates, in addition to its text.
const chainedBytes = 512

// CreateThen adds the jobs that the outcome creates. They are objects as in POST /jobs/create. reserve waits until that many
// bytes of memory are free.
func (f *OutcomeFields) CreateThen(s *Decoder, o *job.Outcome, reserve func(bytes int64) error) error {
	if web.Absent(f.Then) {
		return nil
	}
	if o.Code != job.OK && o.Code != job.Fail {
		return web.BadRequest("then", fmt.Sprintf("then requires the code ok or failed, not %s: a job that runs again would create the jobs again", o.Code))
	}
	if f.Then.Kind() != jsontext.KindBeginArray {
		return web.BadRequest("then", fmt.Sprintf("then must be a list of jobs, not %s", web.KindText(f.Then.Kind())))
	}
	now := s.Now()
	b := Bulk{chained: true}
	items := jsontext.NewDecoder(bytes.NewBuffer(f.Then))
	if _, err := items.ReadToken(); err != nil {
		return fmt.Errorf("read then: %w", err) // cannot happen: the text was checked as JSON before
	}
	for items.PeekKind() != jsontext.KindEndArray {
		i := len(b.Ends)
		if i == job.MaxChained {
			return web.BadRequest("then", fmt.Sprintf("an outcome creates at most %d jobs; let one of them create more", job.MaxChained))
		}
		if err := reserve(chainedBytes); err != nil {
			return err
		}
		text, err := items.ReadValue()
		if err != nil {
			return fmt.Errorf("read then: %w", err)
		}
		if err := b.add(s, text, now); err != nil {
			return web.Inside(web.Item("then", i), err)
		}
	}
	if len(b.Ends) > 0 {
		o.Then = b.Command()
	}
	return nil
}

// inherited clears the defaults of the attributes that a job inherits from the job that creates it.
func (a *Attributes) inherited(g *job.Group) {
	if a.Client == nil {
		g.Client = ""
	}
}

// followOn returns the stored form of an on_complete, with every default. Its payload is the output of the job.
func (s *Decoder) followOn(a *Attributes) (job.FollowOn, error) {
	if a == nil {
		return "", nil
	}
	switch {
	case a.Type == nil:
		return "", web.BadRequest("on_complete.type", "on_complete.type is missing")
	case a.RunAt != nil || a.ExpiresAt != nil:
		return "", web.BadRequest("on_complete", "on_complete must not have run_at or expires_at, because it is not known when the job completes; delay_ms counts from then")
	}
	g, err := s.Group(a, 0)
	if err != nil {
		return "", web.Inside("on_complete", err)
	}
	a.inherited(&g)
	delayMs := g.RunAt // after the time 0
	g.RunAt = 0
	text, err := job.NewFollowOn(&g, delayMs)
	return text, web.BadField("on_complete", err)
}
