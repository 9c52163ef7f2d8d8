package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// produce posts batches until the life ends.
func (s *server) produce(id int) {
	u := s.user(id)
	for u.rest(200 * time.Millisecond) {
		b := u.unansweredCreate()
		if b == nil {
			b = u.batch(s.w.producers[id])
		}
		u.post(b)
	}
}

const (
	// loners is the number of users that create single jobs without a key.
	loners = 3
	// meeting is the period of their creates, which arrive within meetingTime of each other. An fsync takes about as
	// long, so most of these creates share a record of the journal.
	meeting, meetingTime = 150 * time.Millisecond, 100 * time.Microsecond
)

// produceAlone posts single jobs, at about the same time as other users, until the life ends.
func (s *server) produceAlone(id int) {
	u := s.user(id)
	for {
		time.Sleep(meeting - time.Duration(time.Now().UnixNano())%meeting)
		if !u.rest(meetingTime) {
			return
		}
		u.post(u.alone())
	}
}

// post posts a batch and records the answer.
func (u *user) post(b *batch) {
	a := u.w.account
	a.mu.Lock()
	a.batches[b.tag] = b
	a.mu.Unlock()
	var made applied.Made
	var receipt ingest.Receipt
	create := b.create // a copy, since the engine keeps the command
	create.Payloads = append([]byte(nil), b.create.Payloads...)
	create.Groups = append([]job.Group(nil), b.create.Groups...)
	if b.create.Submission != nil {
		submission := *b.create.Submission
		submission.Metadata = append([]byte(nil), submission.Metadata...)
		create.Submission = &submission
	}
	err := u.request(func(ctx context.Context) (err error) {
		made, receipt, err = u.s.engine.Create(ctx, &create)
		return err
	})
	fate := unknown
	if err == nil {
		fate = stored
	} else if notStored(err) {
		fate = rejected
	} else if errors.Is(err, job.BatchNotFound) || errors.Is(err, job.BatchEnded) || errors.Is(err, job.BatchClosed) {
		fate = declined
	}
	if fate != declined || b.create.Into.IsZero() {
		u.unexpected("create", err)
	}
	if b.numbering != nil && (fate == stored || fate == rejected && !b.lost) {
		b.numbering.answered(&b.create.Once)
	}
	if err := a.created(b, made, receipt, fate); err != nil {
		u.w.violation(err)
	}
	u.s.log("create %s, %d jobs: %v %v", b.tag, len(b.payloads), receipt, err)
}

// unansweredCreate returns a create whose answer was lost, to be repeated with its key or number, or nil.
func (u *user) unansweredCreate() *batch {
	a := u.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.toRepeat, func(b *batch) bool { return b.by == u.key })
	if i < 0 || u.random.IntN(2) == 0 {
		return nil
	}
	b := a.toRepeat[i]
	a.toRepeat = slices.Delete(a.toRepeat, i, i+1)
	return b
}

// batch makes a random create.
func (u *user) batch(numbers *numbering) *batch {
	b := u.unkeyed()
	switch u.random.IntN(20) {
	case 0, 1, 2, 3, 4:
		u.makeMovable(b)
	case 5: // queues that are empty now and then, so that they can be deleted
		for i := range b.create.Groups {
			if u.key != nil {
				break // finish deletes the queues of users without a key
			}
			b.create.Groups[i].Type, b.create.Groups[i].RetentionMs = briefType, 1000
			b.create.Groups[i].Lines = 1 + u.random.IntN(2)
		}
	}
	if u.random.IntN(3) == 0 {
		b.create.Once = job.Once{Scope: "create", Key: b.tag}
	} else if u.random.IntN(2) == 0 {
		b.numbering = numbers
		u.number(numbers, &b.create.Once)
	}
	u.addPayloads(b)
	return b
}

// alone makes a create of one job or a few, without a batch, which may share a record.
func (u *user) alone() *batch {
	b := u.unkeyed()
	if b.create.Joined = true; u.random.IntN(4) > 0 {
		b.create.Groups = b.create.Groups[:1]
		b.create.Groups[0].Lines = 1
	}
	u.addPayloads(b)
	return b
}

// unkeyed makes a random create without keys and payloads.
func (u *user) unkeyed() *batch {
	u.w.account.mu.Lock()
	u.w.posted++
	b := &batch{tag: fmt.Sprintf("batch-%d", u.w.posted), by: u.key}
	u.w.account.mu.Unlock()
	b.create.Frame = pick(u.random, job.LineFrame, job.LenFrame)
	for range pick(u.random, 1, 1, 1, 2, 4) {
		g := job.Group{
			Lines: 1 + u.random.IntN(pick(u.random, 3, 10, 40)), Client: u.client(), Type: pick(u.random, "resize", "mail"), Attributes: job.Attributes{Kind: job.Text,
				Priority: pick(u.random, 4, 4, 0, 9), MaxAttempts: 1 + u.random.IntN(4), LeaseMs: int64(1000 + u.random.IntN(4000)),
				Backoff:     job.Backoff{InitialMs: int64(u.random.IntN(500)), FactorMilli: 2000, MaxMs: 2000},
				RetentionMs: pick(u.random, int64(1000), 1_000_000_000)},
		}
		if u.random.IntN(5) == 0 {
			g.RunAt = u.s.engine.Now() + int64(u.random.IntN(3000))
		}
		if u.random.IntN(4) == 0 {
			g.Meta = job.Meta(fmt.Sprintf("of=%s", b.tag))
		}
		if u.random.IntN(6) == 0 {
			g.OnComplete = u.followOn(true)
		}
		b.create.Groups = append(b.create.Groups, g)
	}
	return b
}

func (u *user) addPayloads(b *batch) {
	for i := range b.create.Groups {
		for range b.create.Groups[i].Lines {
			payload := fmt.Sprintf("%s/%d/%s", b.tag, len(b.payloads), u.text())
			if b.create.Frame == job.LineFrame {
				payload = strings.ReplaceAll(payload, "\n", " ")
			}
			b.payloads = append(b.payloads, payload)
			b.groups = append(b.groups, &b.create.Groups[i])
			b.create.Payloads = b.create.Frame.Append(b.create.Payloads, []byte(payload))
			b.create.Longest = max(b.create.Longest, len(payload))
		}
	}
}

// text makes the rest of a payload. Some payloads look like a part of a journal.
func (u *user) text() string {
	switch u.random.IntN(20) {
	case 0:
		return strings.Repeat("x", u.random.IntN(3000))
	case 1:
		return "\n#:create v=1 salt=00000000 seq=7 at=1 synced=9 bytes=0\n#:end crc=00000000\n"
	case 2:
		return string(make([]byte, u.random.IntN(600)))
	}
	return fmt.Sprint(u.random.Uint64())
}
