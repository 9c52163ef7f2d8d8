package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// TestJoinableCreates: what a create becomes in runs. A create that the server would refuse is a request of its own,
// whose refusal says why.
func TestJoinableCreates(t *testing.T) {
	negative := int64(-1)
	for name, n := range map[string]NewJob{
		"no UTF-8":            {Payload: []byte{0xff}, Kind: Text},
		"no JSON":             JSONJob("t", []byte("{")),
		"unknown kind":        {Payload: []byte("x"), Kind: "x"},
		"input alone":         {InputAddr: "x"},
		"two payloads":        {BinaryAddr: "x", Payload: []byte("y")},
		"negative delay":      {Attributes: Attributes{DelayMs: -1}},
		"negative retention":  {Attributes: Attributes{RetentionMs: &negative}},
		"meta without a name": {Attributes: Attributes{Meta: map[string]string{"": "x"}}},
		"long":                {Payload: make([]byte, maxJoinedBytes+1)},
	} {
		if own := n.joinable(); own != nil {
			t.Errorf("%s: %+v", name, own.run)
		}
	}
	var creates []*joinedCreate
	for _, n := range []NewJob{TextJob("b", "1"), TextJob("a", "2\n"), TextJob("b", "3"), {Type: "n"}, TextJob("a", "4"), {Type: "n"}} {
		creates = append(creates, n.joinable())
	}
	text := appendRuns(nil, creates)
	d := runs.NewDecoder(text)
	head, err := d.Creation()
	if err != nil || head != (runs.Creation{NoBatch: true, Jobs: 6, Runs: 3}) {
		t.Fatalf("%+v, %v", head, err)
	}
	line := 0
	for range head.Runs {
		r, err := d.NewRun()
		if err != nil {
			t.Fatal(err)
		}
		rest := r.Payloads
		for range r.N {
			own := creates[line] // they are in the order of their runs now
			var payload []byte
			if payload, rest, err = r.Frame.Next(rest); err != nil || !bytes.Equal(payload, own.payload) || r.Type != own.run.Type || r.Kind != own.run.Kind {
				t.Errorf("job %d: %q of %+v, want %q of %+v (%v)", line, payload, r, own.payload, own.run, err)
			}
			line++
		}
	}
	if err := d.End(); err != nil || line != 6 {
		t.Errorf("%d jobs, %v", line, err)
	}
	if creates[0].run.Type != "a" || creates[2].run.Type != "b" || creates[5].run.Kind != job.Nothing {
		t.Errorf("%s", text)
	}
}

// TestWaitingCreates: creates that wait become one request, and a create whose context ends is not sent, or is unknown.
func TestWaitingCreates(t *testing.T) {
	var j joinedCreates
	c := New("http://127.0.0.1:1", Options{})
	waiting := func() int {
		j.mu.Lock()
		defer j.mu.Unlock()
		return len(j.waiting)
	}
	j.requests, j.sentAt = 1, time.Now().Add(time.Hour) // a request is under way, and no other one is due
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan joinedAnswer, 3)
	for i := range 3 {
		n := TextJob("t", fmt.Sprint(i))
		go func() { answers <- j.create(ctx, c, n.joinable()) }()
	}
	for waiting() < 3 {
		time.Sleep(time.Millisecond)
	}
	j.mu.Lock()
	creates, callers := j.take()
	j.mu.Unlock()
	n := TextJob("t", "later")
	go func() { answers <- j.create(ctx, c, n.joinable()) }()
	for waiting() < 1 {
		time.Sleep(time.Millisecond)
	}
	if len(creates) != 3 {
		t.Fatalf("%d creates are one request", len(creates))
	}
	id := job.NewID(5, 7, 0)
	creates[0].answer <- joinedAnswer{id: id}
	if a := <-answers; a.err != nil || a.id != id {
		t.Errorf("%+v", a)
	}
	cancel()
	unknown, unsent := 0, 0
	for range 3 {
		a := <-answers
		switch {
		case errors.Is(a.err, ErrUnknown):
			unknown++
		case errors.Is(a.err, ErrUnavailable):
			unsent++
		}
	}
	if unknown != 2 || unsent != 1 || waiting() != 0 {
		t.Errorf("%d unknown, %d not sent, %d wait", unknown, unsent, waiting())
	}
	callers.Wait() // nobody is waited for who has gone

	// Without a stream, what waits is not sent, and each create is a request of its own.
	j.requests, j.sentAt = 0, time.Time{}
	if a := j.create(t.Context(), c, n.joinable()); !errors.Is(a.err, errNotJoined) {
		t.Errorf("%+v", a)
	}
}
