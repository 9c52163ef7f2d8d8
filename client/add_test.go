package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// lineStore is a server that stores the lines that are posted to it. spoil replaces its answers.
type lineStore struct {
	mu     sync.Mutex
	stored map[string]int
	spoil  map[string]clienttest.Reply // by body; with status 0 the body is stored, and its answer is lost
}

func (s *lineStore) Client() *client.Client {
	s.stored = map[string]int{}
	f := &clienttest.Fake{Answer: func(c clienttest.Call) clienttest.Reply {
		s.mu.Lock()
		defer s.mu.Unlock()
		spoilt, bad := s.spoil[string(c.Text)]
		if bad && spoilt.Status != 0 && spoilt.Status != 502 {
			return spoilt
		}
		s.stored[string(c.Text)]++
		if bad {
			return spoilt
		}
		return clienttest.Reply{Status: 201, Body: fmt.Sprintf(`{"batch_id":"b","count":%d}`, bytes.Count(c.Text, []byte("\n")))}
	}}
	return f.Client(client.Options{})
}

func TestAddGoesOnWithoutDoubling(t *testing.T) {
	const input = "a\nb\nc\n"
	options := client.AddOptions{BodyBytes: 2, InFlight: 1}
	add := func(t *testing.T, s *lineStore, c *client.Client, o client.AddOptions) (client.AddResult, error) {
		t.Helper()
		r, err := c.Add(t.Context(), strings.NewReader(input), o)
		return r, err
	}
	for name, spoilt := range map[string]clienttest.Reply{"502 of a proxy": {Status: 502, Body: "<html>"}, "lost answer": clienttest.LostAnswer} {
		t.Run(name, func(t *testing.T) {
			s := &lineStore{spoil: map[string]clienttest.Reply{"b\n": spoilt}}
			c := s.Client()
			r, err := add(t, s, c, options)
			testkit.MustHold(t, errors.Is(err, problem.ErrUnknown) && len(r.Unknown) == 1 && r.Bytes == 2, r, err)
			s.spoil = nil
			o := options
			o.Resume = &r
			again, err := add(t, s, c, o)
			testkit.MustHold(t, errors.Is(err, problem.ErrUnknown) && s.stored["b\n"] == 1, again, err, "stored", s.stored)
			o.Resume, o.RepeatUnknown = &again, true
			r, err = add(t, s, c, o)
			testkit.Holds(t, err == nil && r.Bytes == 6 && r.Jobs == 3 && len(r.Unknown) == 0, r, err)
			testkit.DeepEqual(t, s.stored, map[string]int{"a\n": 1, "b\n": 2, "c\n": 1}, "stored")
		})
	}
	t.Run("what a resumed Add does not reach is remembered", func(t *testing.T) {
		s := &lineStore{}
		c := s.Client()
		known := client.AddResult{
			Unknown: []client.AddedBody{{Offset: 0, Bytes: 2}, {Offset: 4, Bytes: 2}},
			Bodies:  []client.AddedBody{{Offset: 2, Bytes: 2, Added: client.Added{Count: 1}}},
		}
		o := options
		o.Resume = &known
		r, err := add(t, s, c, o)
		testkit.Holds(t, errors.Is(err, problem.ErrUnknown) && reflect.DeepEqual(r.Unknown, known.Unknown) &&
			reflect.DeepEqual(r.Bodies, known.Bodies) && len(s.stored) == 0, r, err, "stored", s.stored)
	})
	t.Run("a repeat that is refused leaves it unknown", func(t *testing.T) {
		s := &lineStore{spoil: map[string]clienttest.Reply{"b\n": clienttest.Problem(400, "bad_request", "not_stored")}}
		o := options
		o.Resume, o.RepeatUnknown = &client.AddResult{Unknown: []client.AddedBody{{Offset: 2, Bytes: 2}}}, true
		r, err := add(t, s, s.Client(), o)
		testkit.Holds(t, errors.Is(err, problem.ErrBadRequest) && len(r.Unknown) == 1, r, err)
	})
	t.Run("an error does not abort posts that are under way", func(t *testing.T) {
		under, failed := make(chan struct{}), make(chan struct{})
		f := &clienttest.Fake{Answer: func(c clienttest.Call) clienttest.Reply {
			if string(c.Text) == "a\n" {
				close(under)
				<-failed
				return clienttest.Reply{Status: 201, Body: `{"batch_id":"b","count":1}`}
			}
			<-under
			defer close(failed)
			return clienttest.Problem(400, "bad_request", "not_stored")
		}}
		r, err := f.Client(client.Options{}).Add(t.Context(), strings.NewReader("a\nb\n"), client.AddOptions{BodyBytes: 2, InFlight: 2})
		testkit.Holds(t, errors.Is(err, problem.ErrBadRequest) && r.Bytes == 2 && len(r.Unknown) == 0, r, err)
	})
	t.Run("an answer that counts no jobs is an error", func(t *testing.T) {
		f := clienttest.InTurn(clienttest.Reply{Status: 200, Body: `{}`})
		testkit.Fails(f.Client(client.Options{}).AddLines(t.Context(), []byte("a\n"), client.AddOptions{}))(t, problem.ErrUnknown)
	})
}

// TestAddFlushesWhenTheInputIsSilent: the lines of a slow input are posted before a body is full, each once and in
// order.
func TestAddFlushesWhenTheInputIsSilent(t *testing.T) {
	c := (&lineStore{}).Client()
	in, feed := io.Pipe()
	stored := make(chan client.AddedBody)
	type end struct {
		result client.AddResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		result, err := c.Add(t.Context(), in, client.AddOptions{
			Type: "stream", Key: client.NewKey(), FlushAfter: time.Millisecond, Stored: func(b client.AddedBody) { stored <- b },
		})
		ended <- end{result, err}
	}()
	offset := int64(0)
	for i := range 3 {
		line := fmt.Sprintf("line %d\n", i)
		testkit.Must(io.WriteString(feed, line))(t)
		b := <-stored
		testkit.Holds(t, b.Count == 1 && b.Offset == offset && b.Bytes == len(line), b, "want one job at byte", offset)
		offset += int64(len(line))
	}
	testkit.NoError(t, feed.Close())
	e := <-ended
	testkit.Holds(t, e.err == nil && e.result.Jobs == 3 && e.result.Bytes == offset, e.result, e.err)
}

// TestResumeOfAnotherSplit: with a different BodyBytes the bodies differ from the earlier Add's. Add must not store
// their lines twice.
func TestResumeOfAnotherSplit(t *testing.T) {
	s := daybooktest.Start(t)
	input := strings.Repeat("a line of some length\n", 300)
	o := client.AddOptions{BodyBytes: 200}
	broken := errors.New("the input broke off")
	known, err := s.Client.Add(t.Context(), io.MultiReader(strings.NewReader(input[:len(input)/2]), brokenOff{broken}), o)
	testkit.MustHold(t, errors.Is(err, broken) && known.Jobs != 0, known, err)
	o.Resume = &known
	again, err := s.Client.Add(t.Context(), brokenOff{broken}, o)
	testkit.Holds(t, errors.Is(err, broken) && again.Jobs == known.Jobs && again.Bytes == known.Bytes,
		"an Add that stored nothing reports", again.Bytes, "bytes", again.Jobs, "jobs; known are", known.Bytes, known.Jobs)
	o.BodyBytes = 333
	testkit.Fails(s.Client.Add(t.Context(), strings.NewReader(input), o))(t, problem.ErrBadRequest)
	o.BodyBytes = 200
	testkit.Equal(t, testkit.Must(s.Client.Add(t.Context(), strings.NewReader(input), o))(t).Jobs, 300, "jobs")
	q := testkit.Must(s.Client.Queue(t.Context(), "default", "default"))(t)
	testkit.Equal(t, q.Counts["pending"], 300, q.Counts, "each line once")
}

type brokenOff struct{ err error }

func (b brokenOff) Read([]byte) (int, error) { return 0, b.err }

func TestAddValues(t *testing.T) {
	s := daybooktest.Start(t)
	var sent strings.Builder
	var acknowledged atomic.Int64
	priority := 7
	o := client.AddOptions{
		Type: "values", Kind: client.JSON, BodyBytes: 300, Attributes: client.Attributes{Priority: &priority, Meta: map[string]string{"a": "b"}},
		Body: func(b client.AddedBody, lines []byte) error {
			testkit.Holds(t, b.Offset == int64(sent.Len()) && b.Bytes == len(lines),
				"the body at byte", b.Offset, "with", b.Bytes, "bytes comes after", sent.Len(), "bytes, and has", len(lines))
			sent.Write(lines)
			return nil
		},
		Acknowledged: func(b client.AddedBody) { acknowledged.Add(int64(b.Count)) },
	}
	const input = "{\"a\": 1}\n\n  [2]\r\n\"text\"\n3"
	dry := o
	dry.DryRun = true
	dry.Body = nil
	r, err := s.Client.Add(t.Context(), strings.NewReader(input), dry)
	testkit.Holds(t, err == nil && r.Jobs == 4 && len(r.Bodies) >= 2 && acknowledged.Load() == 0, r, err)
	r, err = s.Client.Add(t.Context(), strings.NewReader(input), o)
	testkit.MustHold(t, err == nil && r.Jobs == 4 && len(r.Bodies) >= 2 && sent.String() == input && acknowledged.Load() == 4,
		r, err, "sent", &sent, "acknowledged", acknowledged.Load())
	kinds := map[string]client.Kind{`{"a": 1}`: client.JSON, "[2]": client.JSON, "text": client.Text, "3": client.JSON}
	for j, err := range s.Client.Jobs(t.Context(), client.JobsQuery{Type: "values"}) {
		testkit.NoError(t, err)
		kind, ok := kinds[string(j.Payload)]
		testkit.Holds(t, ok && kind == j.Kind && j.Priority == 7 && j.Meta["a"] == "b", j.Payload, j.Kind, j)
		delete(kinds, string(j.Payload))
	}
	testkit.Holds(t, len(kinds) == 0, "missing", kinds)
	// A line cannot end its object, and set other attributes of the job.
	for _, line := range []string{"1},{\"priority\":9", "{", "1 2", "\"\xff\""} {
		_, err := s.Client.AddLines(t.Context(), []byte(line), client.AddOptions{Kind: client.JSON})
		testkit.Holds(t, errors.Is(err, problem.ErrBadRequest), line, err)
	}
	for _, o := range []client.AddOptions{{Kind: client.JSON, StripCR: true}, {Kind: client.Bytes}} {
		_, err := s.Client.Add(t.Context(), strings.NewReader("1\n"), o)
		testkit.Holds(t, errors.Is(err, problem.ErrBadRequest), o, err)
	}
	// Body ends an Add before a body is posted.
	stop := errors.New("stop")
	o.Type, o.Body = "stopped", func(b client.AddedBody, _ []byte) error {
		if b.Offset > 0 {
			return stop
		}
		return nil
	}
	r, err = s.Client.Add(t.Context(), strings.NewReader(input), o)
	testkit.Holds(t, errors.Is(err, stop) && len(r.Bodies) == 1, r, err)
	// Short lines become bodies within the server's limit.
	if r, err := s.Client.Add(t.Context(), strings.NewReader(strings.Repeat("1\n", 300_000)), client.AddOptions{Type: "short", Kind: client.JSON, BodyBytes: 4 << 20}); err != nil || r.Jobs != 300_000 {
		t.Errorf("%d jobs, %v", r.Jobs, err)
	}
}
