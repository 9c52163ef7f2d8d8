package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

const someID = "0197f1c0-1111-7000-8000-000000400000"

func openSession(t *testing.T, c *client.Client) *client.Session {
	t.Helper()
	return testkit.Must(c.OpenSession(t.Context(), "r1"))(t)
}

func take(t *testing.T, s *client.Session) client.Number {
	t.Helper()
	return testkit.Must(s.Take(t.Context()))(t)
}

// TestNumberedCallsAreCarriedOutOnce: for each kind of request that can have a number, the same call with the same
// number returns the answer of the first.
func TestNumberedCallsAreCarriedOutOnce(t *testing.T) {
	server := daybooktest.Start(t)
	c, ctx := server.Client, t.Context()
	s := openSession(t, c)
	lines := []byte("a\nb\nc\nd\n")
	queue := func() client.Queue { t.Helper(); return testkit.Must(c.Queue(ctx, "default", "default"))(t) }
	number := func() (*client.Client, func()) { n := take(t, s); return c.Numbered(n), func() { s.Answered(n) } }

	numbered, answered := number()
	var ids [2]string
	for i := range ids {
		added := testkit.Must(numbered.AddLines(ctx, lines, client.AddOptions{}))(t)
		ids[i] = added.FirstID
	}
	testkit.Fails(numbered.AddLines(ctx, []byte("e\n"), client.AddOptions{}))(t, problem.ErrKeyReused)
	answered()
	pending := queue().Counts["pending"]
	testkit.Holds(t, ids[0] == ids[1] && pending == 4, "added", ids, pending, "jobs")

	numbered, answered = number()
	for i := range ids {
		j := testkit.Must(numbered.Create(ctx, client.TextJob("single", "x")))(t)
		ids[i] = j.ID
	}
	answered()
	testkit.Holds(t, ids[0] == ids[1], "created", ids)

	numbered, answered = number()
	var claims [2]*client.Claim
	for i := range claims {
		var err error
		claims[i], err = numbered.Claim(ctx, client.ClaimRequest{RunnerID: "r1", Max: 3, Types: []string{"default"}})
		testkit.MustHold(t, err == nil && len(claims[i].Jobs) == 3, claims[i], err)
	}
	answered()
	active := queue().Counts["active"]
	testkit.Holds(t, claims[0].ID == claims[1].ID && active == 3, "claims", claims[0].ID, "and", claims[1].ID, active, "jobs")

	jobs := claims[0].Jobs
	numbered, answered = number()
	for range 2 {
		testkit.Must(numbered.Complete(ctx, jobs[0].ID, "", client.Outcome{}))(t)
	}
	answered()
	numbered, answered = number()
	for range 2 {
		results, err := numbered.CompleteMany(ctx, claims[0].ID, []client.JobOutcome{{JobID: jobs[1].ID, Outcome: client.Outcome{Code: "failed"}}, {JobID: jobs[0].ID, Outcome: client.Outcome{Code: "failed"}}})
		testkit.Holds(t, err == nil && len(results) == 2 && results[0].Status == "failed" &&
			errors.Is(results[1].Err(), problem.ErrOutcomeDiffers), "complete several", results, err)
	}
	answered()
	numbered, answered = number()
	for range 2 {
		ended, _ := testkit.Must2(numbered.CompleteClaim(ctx, claims[0].ID, client.Outcome{}))(t)
		testkit.Equal(t, ended, 2, "complete the rest")
	}
	answered()

	doc := testkit.Must(c.Session(ctx, s.ID))(t)
	testkit.Holds(t, len(doc.Slots) == 1 && doc.Slots[0] == (client.SessionSlot{Slot: 0, Number: 6}) && doc.RunnerID == "r1", doc)
	n := take(t, s)
	for range 2 {
		testkit.Check(t, s.End(ctx), "end")
	}
	if _, err := c.Numbered(n).Create(ctx, client.TextJob("t", "x")); !errors.Is(err, problem.ErrSessionNotFound) || errors.Is(err, problem.ErrUnknown) {
		t.Errorf("a request of a session that has ended: %v", err)
	}
	testkit.Fails(c.Session(ctx, s.ID))(t, problem.ErrSessionNotFound)
	j := client.TextJob("t", "x")
	j.Key = client.NewKey()
	testkit.Fails(c.Numbered(n).Create(ctx, j))(t, problem.ErrBadRequest)
}

// TestNumberedRequestsAreRepeated: a repeat has the same headers. This holds also for requests that are not repeated
// without a number.
func TestNumberedRequestsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := clienttest.InTurn(clienttest.Reply{Status: 201, Body: `{"session_id":"` + someID + `"}`}, clienttest.LostAnswer, clienttest.LostAnswer, clienttest.Reply{Status: 201, Body: `{"batch_id":"` + someID + `","count":1,"first_id":"` + someID + `"}`})
		c := f.Client(client.Options{})
		s := openSession(t, c)
		n := take(t, s)
		testkit.Must(c.Numbered(n).AddLines(t.Context(), []byte("x\n"), client.AddOptions{}))(t)
		s.Answered(n)
		testkit.MustEqual(t, len(f.Calls), 4, "calls")
		for _, call := range f.Calls[1:] {
			got := [3]string{call.Header.Get("Daybook-Session"), call.Header.Get("Daybook-Session-Slot"), call.Header.Get("Daybook-Session-Number")}
			testkit.Equal(t, got, [3]string{someID, "0", "1"}, "headers")
		}
	})
}

// TestLostAnswerOfAForgottenSession: the server may have carried the request out before it deleted the session.
func TestLostAnswerOfAForgottenSession(t *testing.T) {
	for _, code := range []struct {
		code   string
		status int
		fate   string
		is     error
	}{
		{"session_not_found", http.StatusNotFound, "not_stored", problem.ErrSessionNotFound},
		{"number_passed", http.StatusConflict, "unknown", problem.ErrNumberPassed},
	} {
		t.Run(code.code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := clienttest.InTurn(clienttest.Reply{Status: 201, Body: `{"session_id":"` + someID + `"}`}, clienttest.LostAnswer, clienttest.Problem(code.status, code.code, code.fate))
				c := f.Client(client.Options{})
				testkit.Fails(c.Numbered(take(t, openSession(t, c))).Create(t.Context(), client.TextJob("t", "x")))(t, problem.ErrUnknown, code.is)
			})
		})
	}
}

// TestSlots: as many requests as there are slots can be outstanding, each in its own slot. Take returns the lowest free
// slot.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := clienttest.InTurn(clienttest.Reply{Status: 201, Body: `{"session_id":"` + someID + `"}`})
		s := openSession(t, f.Client(client.Options{}))
		seen := map[int]bool{}
		var all []client.Number
		for range client.MaxSlots {
			n := take(t, s)
			testkit.Holds(t, n.Number == 1 && !seen[n.Slot] && n.Session == someID, n)
			seen[n.Slot] = true
			all = append(all, n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		testkit.Fails(s.Take(ctx))(t, context.DeadlineExceeded)
		var wait sync.WaitGroup
		wait.Go(func() { testkit.Equal(t, take(t, s), (client.Number{Session: someID, Slot: 7, Number: 2})) })
		synctest.Wait()
		s.Answered(all[7])
		wait.Wait()
		s.Answered(all[9])
		s.Answered(all[3])
		n := take(t, s)
		testkit.Holds(t, n.Slot == 3 && n.Number == 2, n)
		for name, n := range map[string]client.Number{"twice": all[9], "of another session": {Session: "other", Slot: 1, Number: 1}, "with an old number": all[7]} {
			func() {
				defer func() { testkit.Holds(t, recover() != nil, "a number answered", name, "is accepted") }()
				s.Answered(n)
			}()
		}
	})
}

func ExampleSession() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()

	session := must(c.OpenSession(ctx, "importer"))
	n := must(session.Take(ctx))
	first := must(c.Numbered(n).Create(ctx, client.TextJob("resize", "cat.png")))
	again := must(c.Numbered(n).Create(ctx, client.TextJob("resize", "cat.png"))) // for example, since the answer was lost
	session.Answered(n)
	fmt.Println(first.ID == again.ID)
	fmt.Println(session.End(ctx))
	// Output:
	// true
	// <nil>
}
