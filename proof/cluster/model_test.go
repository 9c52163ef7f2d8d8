package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestHistories: the model allows what a correct cluster does, and nothing else. Times are ms.
func TestHistories(t *testing.T) {
	at := func(call, ret int64, e event) event {
		e.call, e.ret, e.lease = call*1e6, ret*1e6, e.lease*1e6
		return e
	}
	claim := func(call, ret int64, by string, attempts int) event {
		return at(call, ret, event{kind: handed, claim: by, attempts: attempts, lease: 100})
	}
	end := func(call, ret int64, by, output string, refused bool) event {
		return at(call, ret, event{kind: ended, claim: by, output: output, refused: refused})
	}
	tickle := func(call, ret int64, by string, refused bool) event {
		return at(call, ret, event{kind: tickled, claim: by, refused: refused})
	}
	read := func(call int64, s status, attempts int, output string) event {
		return at(call, call+1, event{kind: observed, status: s, attempts: attempts, output: output})
	}
	for name, tt := range map[string]struct {
		events          []event
		repeated, empty []event
		bad             bool
	}{
		"completed":                          {events: []event{claim(0, 1, "a", 1), end(2, 3, "a", "x", false), read(4, completed, 1, "x")}},
		"never claimed":                      {events: []event{read(0, pending, 0, "")}},
		"a completion is forgotten":          {events: []event{claim(0, 1, "a", 1), end(2, 3, "a", "x", false), read(4, active, 1, "")}, bad: true},
		"another output":                     {events: []event{claim(0, 1, "a", 1), end(2, 3, "a", "x", false), read(4, completed, 1, "y")}, bad: true},
		"completed twice":                    {events: []event{claim(0, 1, "a", 1), claim(200, 201, "b", 2), end(202, 203, "b", "y", false), end(204, 205, "a", "x", false)}, bad: true},
		"two claims at once":                 {events: []event{claim(0, 1, "a", 1), claim(50, 51, "b", 2)}, bad: true},
		"two claims at once, with one count": {events: []event{claim(0, 1, "a", 1), claim(200, 201, "b", 1)}, bad: true},
		"a lease ran out":                    {events: []event{claim(0, 1, "a", 1), claim(120, 121, "b", 2), end(122, 123, "a", "x", true)}},
		"a tickle renews the lease":          {events: []event{claim(0, 1, "a", 1), tickle(50, 51, "a", false), claim(120, 121, "b", 2)}, bad: true},
		"a late outcome counts":              {events: []event{claim(0, 1, "a", 1), end(200, 201, "a", "x", false), read(202, completed, 1, "x")}},
		"a late tickle is refused":           {events: []event{claim(0, 1, "a", 1), tickle(120, 121, "a", true)}},
		"an early tickle is refused":         {events: []event{claim(0, 1, "a", 1), tickle(20, 21, "a", true)}, bad: true},
		"a tickle by nobody":                 {events: []event{claim(0, 1, "a", 1), tickle(2, 3, "b", false)}, bad: true},
		"an outcome is refused":              {events: []event{claim(0, 1, "a", 1), end(2, 3, "a", "x", true)}, bad: true},
		"handed out after its end":           {events: []event{claim(0, 1, "a", 1), end(2, 3, "a", "x", false), claim(200, 201, "b", 2)}, bad: true},
		"at the same time as its end":        {events: []event{claim(0, 1, "a", 1), end(20, 300, "a", "x", true), claim(120, 121, "b", 2)}},
		"an attempt that nobody saw":         {events: []event{claim(0, 1, "a", 2)}, bad: true},
		"an attempt of a repeated claim":     {events: []event{claim(200, 201, "a", 2)}, repeated: []event{at(0, 150, event{})}},
		"an attempt of a later claim":        {events: []event{claim(0, 1, "a", 2)}, repeated: []event{at(50, 60, event{})}, bad: true},
		"two attempts of a repeated claim":   {events: []event{claim(200, 201, "a", 3)}, repeated: []event{at(0, 150, event{})}, bad: true},
		"refused after an empty claim":       {events: []event{claim(0, 1, "a", 1), end(202, 203, "a", "x", true), claim(204, 205, "b", 2)}, empty: []event{at(150, 210, event{})}},
		"refused before an empty claim":      {events: []event{claim(0, 1, "a", 1), end(202, 203, "a", "x", true), claim(204, 205, "b", 2)}, empty: []event{at(204, 210, event{})}, bad: true},
		"refused by nobody":                  {events: []event{claim(0, 1, "a", 1), end(202, 203, "a", "x", true), claim(204, 205, "b", 2)}, bad: true},
		"an attempt of an empty claim":       {events: []event{claim(200, 201, "a", 2)}, empty: []event{at(0, 150, event{})}, bad: true},
	} {
		want := porcupine.Ok
		if tt.bad {
			want = porcupine.Illegal
		}
		testkit.Equal(t, check(tt.events, tt.repeated, tt.empty), want, name)
	}
}

// TestLedger: the ledger notices each way in which a cluster may have lost, doubled or changed what it has acknowledged.
func TestLedger(t *testing.T) {
	unknown := errors.Join(client.ErrUnknown)
	ended := func(id, tag string) stored {
		return stored{id: id, typ: workedType, status: "completed", tag: tag, output: "out of " + tag, attempts: 1}
	}
	follower := stored{id: "20", typ: nextType, status: "completed", tag: "out of follows", of: "follows", output: "out of next"}
	all := []stored{ended("1", "acked"), ended("2", "follows"), follower}
	without := func(n int) []stored { return append(append([]stored(nil), all[:n]...), all[n+1:]...) }
	changed := func(n int, change func(*stored)) []stored {
		list := append([]stored(nil), all...)
		change(&list[n])
		return list
	}
	for name, tt := range map[string]struct {
		jobs []stored
		want string // a part of the problem; "" for none
	}{
		"all is well":                   {all, ""},
		"an unanswered create, stored":  {append(without(0), all[0], ended("4", "open")), ""},
		"lost":                          {without(0), "is lost"},
		"doubled":                       {append(without(0), all[0], ended("9", "acked")), "stored 2 times"},
		"an unanswered create, doubled": {append(without(0), all[0], ended("4", "open"), ended("5", "open")), "stored 2 times"},
		"another id":                    {changed(0, func(j *stored) { j.id = "7" }), "is stored as job 7"},
		"a refused create, stored":      {append(without(0), all[0], ended("5", "refused")), "refused as not stored"},
		"unknown":                       {append(without(0), all[0], ended("8", "nobody's")), "never asked for"},
		"unfinished":                    {changed(0, func(j *stored) { j.status = "pending" }), "is pending at the end"},
		"another output":                {changed(0, func(j *stored) { j.output = "x" }), "acknowledged as completed"},
		"no job follows":                {without(2), "is followed by"},
		"two jobs follow":               {append(without(0), all[0], stored{id: "21", typ: nextType, status: "completed", tag: "out of follows", of: "follows", output: "out of next"}), "is followed by"},
		"another job follows":           {changed(2, func(j *stored) { j.tag = "x" }), "is followed by"},
		"a job follows that must not":   {changed(2, func(j *stored) { j.of = "acked" }), "is followed by"},
	} {
		l := newLedger()
		l.ask(false, "acked")
		l.ask(true, "follows")
		l.ask(false, "open")
		l.ask(false, "refused")
		l.answer(nil, []string{"1"}, "acked")
		l.answer(nil, []string{"2"}, "follows")
		l.answer(unknown, nil, "open")
		l.answer(client.ErrUnavailable, nil, "refused")
		for id, output := range map[string]string{"1": "out of acked", "2": "out of follows"} {
			l.complete(id, output)
		}
		for _, j := range append(all, tt.jobs...) {
			l.returns(j.id, "out of "+j.tag)
			l.returns(j.id, "out of next")
		}
		testkit.Equal(t, len(l.wrong), 0, name)
		l.judge(tt.jobs)
		problems := strings.Join(l.wrong, "\n")
		testkit.Holds(t, (tt.want == "") == (problems == "") && strings.Contains(problems, tt.want), name, problems)
	}
	l := newLedger()
	l.complete("1", "x")
	l.complete("1", "x") // reported again
	testkit.Equal(t, len(l.wrong), 0)
	l.complete("1", "y")
	testkit.Contains(t, strings.Join(l.wrong, "\n"), "completed twice")
}
