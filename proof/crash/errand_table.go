package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/daybookq/daybook/client"
)

// row is a line of the table of errands: a request, the change that it makes, and the answer of a right server.
type row struct {
	verb    string // for errors
	request func(c call) (any, error)
	when    func() bool // if it returns false, the request is left out

	numbered bool // the request has a number of the session
	times    int  // how often it is made; 0: once. Each repeat must get the same answer
	late     bool // with a number, it may also be repeated after later requests in other slots

	ids    ids    // fields of the answer that have new ids
	change func() // of the expected state
	// answer is the right answer, or a func() any that returns it after the change. nil: any answer that is no error. The
	// answer to the request must have these fields, be a list of structs with these []fields, be this refusal, or be equal.
	answer any

	// removes is set if the request removes something. Then an answer of 404 is right only if an earlier try got no answer,
	// or if removes returns true, because the server may have deleted an idle queue.
	removes func() bool
	lost    bool // an earlier try got no answer
}

// call has everything that a request needs.
type call struct {
	context.Context
	*client.Client
}

// ids are the names of fields, and the variables that get their values.
type ids map[string]*string

// fields are expected fields of a struct or map, by their paths. Other fields may have any value.
type fields map[string]any

// refusal is the right answer to a request that the server must refuse.
type refusal string

const (
	notFound   refusal = "not found"
	notHeld    refusal = "not found or claim lost" // the job is gone, or the claim does not hold it
	batchEnded refusal = "batch ended"
	noSession  refusal = "session not found"
)

func (r refusal) is(err error) bool {
	var e *client.Error
	switch {
	case r == noSession: // also after a lost answer, of which the client cannot know that it was the same refusal
		return errors.Is(err, client.ErrSessionNotFound)
	case errors.Is(err, client.ErrUnknown):
		return false
	case r == batchEnded:
		return errors.As(err, &e) && strings.HasPrefix(e.Code, "batch_ended")
	}
	return errors.Is(err, client.ErrNotFound) || r == notHeld && errors.Is(err, client.ErrClaimLost)
}

// neverRemoved is for things that only a request removes.
func neverRemoved() bool { return false }

// own is a row that makes and judges its requests itself.
func own(verb string, do func(ctx context.Context) error) row {
	return row{verb: verb, request: func(c call) (any, error) { return nil, do(c) }}
}

// random gives a row a number of the session. Now and then the request is repeated immediately, or later if the row
// allows it.
func (e *errands) random(r row) row {
	r.numbered, r.times = true, 1
	if e.rng.IntN(3) == 0 {
		r.times++
	}
	r.late = r.late && e.rng.IntN(4) == 0
	return r
}

// progress is the progress of the first row of todo.
type progress struct {
	open    bool          // it was begun and is not answered: the server may have carried it out
	number  client.Number // of a numbered row
	answers []any
}

// do makes the request of a row until it was answered, and judges the answer.
func (e *errands) do(ctx context.Context, r *row) (err error) {
	if r.when != nil && !r.when() {
		return nil
	}
	c, p := call{ctx, e.c}, &e.progress
	if r.removes != nil {
		c.Client = e.once
	}
	if r.numbered {
		if p.number == (client.Number{}) {
			if p.number, err = e.session.Take(ctx); err != nil {
				return err
			}
		}
		c.Client = e.c.Numbered(p.number)
	}
	for len(p.answers) < max(1, r.times) {
		got, err := r.request(c)
		if err != nil {
			return r.judgeError(err)
		}
		p.answers = append(p.answers, got)
	}
	shows, err := r.judge(p.answers)
	if err != nil || !r.numbered {
		return err
	}
	e.last[p.number.Slot] = p.number.Number
	if r.late && len(e.held) < 3 {
		e.held = append(e.held, heldNumber{p.number, r.request, shows, shows(p.answers[0])})
	} else {
		e.session.Answered(p.number)
	}
	return nil
}

// judgeError judges an answer that is an error. It returns nil if the error is right.
func (r *row) judgeError(err error) error {
	var refused *client.Error
	right, missing := false, errors.Is(err, client.ErrNotFound)
	switch {
	case r.removes == nil:
		want, ok := r.right().(refusal)
		right = ok && want.is(err)
	case missing || errors.Is(err, client.ErrConflict):
		if right = missing && (r.lost || r.removes()); !right {
			return impossiblef("it was answered with: %v", err)
		}
	// Other errors prove that the server did nothing if they are or say so.
	case !errors.Is(err, client.ErrUnavailable) && !(errors.As(err, &refused) && refused.Outcome == "not_stored"):
		r.lost = true
	}
	if !right {
		return err
	}
	r.changes()
	return nil
}

// judge judges the answers to the request and its immediate repeats, which must be equal, and changes the expected state.
// It returns a function that shows the parts of an answer that must be equal in later answers.
func (r *row) judge(answers []any) (shows func(any) string, err error) {
	got := answers[0]
	for name, id := range r.ids {
		new := text(field(got, name))
		if new == "" || new == *id {
			return nil, impossiblef("%s %q is no new id; the answer is %s", name, new, whole(got))
		}
		*id = new
	}
	r.changes()
	want := r.right()
	shows = func(got any) (s string) {
		for _, name := range slices.Sorted(maps.Keys(r.ids)) {
			s += text(field(got, name)) + " "
		}
		if want != nil {
			s += show(got, want)
		}
		return s
	}
	for _, repeat := range answers[1:] {
		if first, second := shows(got), shows(repeat); first != second {
			return nil, impossiblef("it was answered with %s, and its repeat with %s", first, second)
		}
	}
	if want, ok := want.(refusal); ok {
		return nil, impossiblef("the answer must be %s, and is %s", want, whole(got))
	}
	if is, must := show(got, want), show(want, want); want != nil && is != must {
		return nil, impossiblef("the answer must be %s, and is %s; all of it: %s", must, is, whole(got))
	}
	return shows, nil
}

func (r *row) changes() {
	if r.change != nil {
		r.change()
	}
}

// right returns the right answer.
func (r *row) right() any {
	if now, ok := r.answer.(func() any); ok {
		return now()
	}
	return r.answer
}

// show shows the parts of a value that an expected value has. show(want, want) shows the expected value itself.
func show(got, want any) string {
	var s []string
	switch want := want.(type) {
	case fields:
		for _, name := range slices.Sorted(maps.Keys(want)) {
			s = append(s, name+" "+show(field(got, name), want[name]))
		}
	case []fields:
		v := reflect.ValueOf(got)
		if v.Len() != len(want) {
			return whole(got)
		}
		for i := range want {
			s = append(s, show(v.Index(i).Interface(), want[i]))
		}
	default:
		return text(got)
	}
	return "{" + strings.Join(s, ", ") + "}"
}

// field returns a field of a struct, or a value of a map, by its path. A key that a map does not have has the value 0.
func field(of any, path string) any {
	if want, ok := of.(fields); ok {
		return want[path]
	}
	name, rest, deeper := strings.Cut(path, ".")
	v := reflect.Indirect(reflect.ValueOf(of))
	if v.Kind() == reflect.Map {
		if v = v.MapIndex(reflect.ValueOf(name)); !v.IsValid() {
			return 0
		}
	} else {
		v = v.FieldByName(name)
	}
	if deeper {
		return field(v.Interface(), rest)
	}
	return v.Interface()
}

// text shows a value, and bytes as a text.
func text(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

// whole shows an answer for an error.
func whole(got any) string {
	b, err := json.Marshal(got)
	if err != nil {
		return fmt.Sprintf("%+v", got)
	}
	return string(b)
}

// repeatLate repeats the requests whose numbers were kept, and frees the numbers.
func (e *errands) repeatLate() row {
	return own("repeat late", func(ctx context.Context) error {
		for len(e.held) > 0 {
			held := e.held[0]
			got, err := held.request(call{ctx, e.c.Numbered(held.n)})
			if err != nil {
				return err
			}
			if answer := held.shows(got); answer != held.answer {
				return impossiblef("%+v was answered with %s, and its late repeat with %s", held.n, held.answer, answer)
			}
			e.session.Answered(held.n)
			e.held = e.held[1:]
		}
		return nil
	})
}

// next inserts rows after the current one.
func (e *errands) next(rows ...row) { e.todo = slices.Insert(e.todo, 1, rows...) }

// claims claims jobs of a type as a runner. A claim that hands out nothing has neither an id nor jobs.
func (c call) claims(q client.ClaimRequest, runner, typ string) (any, error) {
	q.RunnerID, q.Types = runner, []string{typ}
	got, err := c.Claim(c, q)
	if got == nil {
		got = &client.Claim{}
	}
	return got, err
}
