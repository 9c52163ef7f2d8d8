package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// Requests that are safe to repeat are repeated after failures that may soon pass.
func TestRepeatingReadsAndClaims(t *testing.T) {
	for name, first := range map[string]clienttest.Reply{
		"lost answer": clienttest.LostAnswer, "connection refused": clienttest.RefusedConnection, "no answer in time": {After: -1},
		"502": {Status: 502}, "503": {Status: 503}, "504": {Status: 504}, "429": {Status: 429}, "408": clienttest.Problem(408, "body_too_slow", "not_stored"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := clienttest.InTurn(first, clienttest.Reply{Status: 204})
				claim, err := f.Client(client.Options{RetryFor: time.Minute}).Claim(t.Context(), client.ClaimRequest{RunnerID: "r"})
				testkit.Holds(t, claim == nil && err == nil && len(f.Calls) == 2, claim, err, "after", len(f.Calls), "requests")
			})
		})
	}
	for name, only := range map[string]clienttest.Reply{"500": clienttest.Problem(500, "internal", "unknown"), "507": clienttest.Problem(507, "disk_full", "not_stored"), "404 of a proxy": {Status: 404}} {
		t.Run(name+" is not repeated", func(t *testing.T) {
			f := clienttest.InTurn(only)
			_, err := f.Client(client.Options{}).Claim(t.Context(), client.ClaimRequest{RunnerID: "r"})
			testkit.Holds(t, err != nil && len(f.Calls) == 1, err, "after", len(f.Calls), "requests")
		})
	}
	t.Run("a read whose answer was lost is not ErrUnknown", func(t *testing.T) {
		f := clienttest.InTurn(clienttest.LostAnswer)
		_, err := f.Client(client.Options{RetryFor: -1}).Job(t.Context(), clienttest.TestID(0))
		testkit.Holds(t, errors.Is(err, problem.ErrUnavailable) && !errors.Is(err, problem.ErrUnknown), err)
	})
	t.Run("a change without a claim is not repeated", func(t *testing.T) {
		f := clienttest.InTurn(clienttest.LostAnswer)
		_, err := f.Client(client.Options{}).Complete(t.Context(), clienttest.TestID(0), "", client.Outcome{})
		testkit.Holds(t, errors.Is(err, problem.ErrUnknown) && len(f.Calls) == 1, err, "after", len(f.Calls), "requests")
	})
	t.Run("Retry-After is obeyed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			busy := clienttest.Problem(429, "overloaded", "not_stored")
			busy.Header = http.Header{"Retry-After": {"7"}}
			f, began := clienttest.InTurn(busy, clienttest.Reply{Status: 204}), time.Now()
			testkit.Must(f.Client(client.Options{}).Claim(t.Context(), client.ClaimRequest{RunnerID: "r"}))(t)
			testkit.Holds(t, time.Since(began) == 7*time.Second, "after", time.Since(began))
		})
	})
}

// dripping is a body that arrives one byte at a time.
type dripping struct {
	left  int
	every time.Duration
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	d.left--
	time.Sleep(d.every) // real time: a slow body
	p[0] = ' '
	if d.left == 0 {
		p[0] = '0'
	}
	return 1, nil
}
func (d *dripping) Close() error { return nil }

func TestTimeoutOfATry(t *testing.T) {
	took := func(t *testing.T, ask func(c *client.Client) error, o client.Options) (took time.Duration, err error) {
		synctest.Test(t, func(t *testing.T) {
			o.RetryFor = -1
			began := time.Now()
			err = ask(clienttest.InTurn(clienttest.Reply{After: -1}).Client(o))
			took = time.Since(began)
		})
		return took, err
	}
	ping := func(c *client.Client) error { return c.Ping(context.Background()) }
	t.Run("30 s by default", func(t *testing.T) {
		d, err := took(t, ping, client.Options{})
		testkit.Holds(t, d == 30*time.Second && errors.Is(err, problem.ErrUnavailable) && !errors.Is(err, context.Canceled), err, "after", d)
	})
	t.Run("as set in Options", func(t *testing.T) {
		d, err := took(t, ping, client.Options{Timeout: time.Second})
		testkit.Holds(t, d == time.Second && err != nil, err, "after", d)
	})
	t.Run("a claim's wait is added", func(t *testing.T) {
		claim := func(c *client.Client) error {
			_, err := c.Claim(context.Background(), client.ClaimRequest{RunnerID: "r", Wait: 20 * time.Second})
			return err
		}
		d, err := took(t, claim, client.Options{})
		testkit.Holds(t, d >= 50*time.Second && d <= 51*time.Second && err != nil, err, "after", d)
	})
	t.Run("the time for a long body is added", func(t *testing.T) {
		add := func(c *client.Client) error {
			_, err := c.AddLines(context.Background(), make([]byte, 2<<20), client.AddOptions{})
			return err
		}
		d, err := took(t, add, client.Options{})
		testkit.Holds(t, d == 38*time.Second && errors.Is(err, problem.ErrUnknown), err, "after", d)
	})
	t.Run("an answer that arrives slowly does not time out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := clienttest.InTurn(clienttest.Reply{Status: 200, Stream: &dripping{left: 10, every: 20 * time.Second}})
			testkit.Check(t, f.Client(client.Options{RetryFor: -1}).Ping(t.Context()))
		})
	})
}

func TestAnswersThatAreTooLarge(t *testing.T) {
	f := clienttest.InTurn(clienttest.Reply{Status: 200, Stream: clienttest.Endless{}})
	_, err := f.Client(client.Options{}).Claim(t.Context(), client.ClaimRequest{RunnerID: "r", Max: 1000})
	testkit.Holds(t, errors.Is(err, problem.ErrUnexpectedAnswer) && !errors.Is(err, problem.ErrUnknown) &&
		len(f.Calls) == 1, err, "after", len(f.Calls), "requests: each may have handed out jobs")
	testkit.Equal(t, f.Calls[0].Body["max_bytes"], 8.0*(1<<20), "asked for max_bytes")
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	f := clienttest.InTurn(clienttest.Reply{Status: 302, Header: http.Header{"Location": {"http://elsewhere/"}}})
	err := f.Client(client.Options{}).Ping(t.Context())
	testkit.Holds(t, errors.Is(err, problem.ErrUnexpectedAnswer) && len(f.Calls) == 1, err, "after", len(f.Calls), "requests")
}

// Every code that docs/reference/errors.md lists has a sentinel, or is listed here as a code without one.
func TestCodesHaveSentinels(t *testing.T) {
	all := []error{
		problem.ErrBadRequest, problem.ErrNotFound, problem.ErrNotActive, problem.ErrClaimLost, problem.ErrOutcomeDiffers, problem.ErrRunnerDiffers,
		problem.ErrCancelled, problem.ErrConflict, problem.ErrVersionDiffers, problem.ErrKeyHeld, problem.ErrKeyReused, problem.ErrSessionNotFound, problem.ErrNumberPassed, problem.ErrTooLarge, problem.ErrNoBlobs, problem.ErrBlobDamaged, problem.ErrForbidden, problem.ErrOverloaded, problem.ErrUnavailable,
		problem.ErrRunnerTaken, problem.ErrRunnerReplaced, problem.ErrRunnerLost,
	}
	without := map[string]bool{"route_not_found": true, "method_not_allowed": true, "client_gone": true, "internal": true, "store_damaged": true}
	doc := testkit.Must(os.ReadFile("../docs/reference/errors.md"))(t)
	codes := 0
	for _, m := range regexp.MustCompile("(?m)^\\| \\d{3} \\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		codes++
		found := 0
		for _, sentinel := range all {
			if errors.Is(&problem.Error{Code: m[1], Outcome: "not_stored"}, sentinel) {
				found++
			}
		}
		testkit.Holds(t, (found == 1 || without[m[1]]) && (!without[m[1]] || found == 0), m[1], "has", found, "sentinels")
	}
	testkit.Holds(t, codes >= 20, "found", codes, "codes in the document")
}

// The refusal of a repeat applies to the repeat only. If the answer of an earlier try was lost, that try may have been
// stored.
func TestARefusedRepeatDoesNotProveThatNothingWasStored(t *testing.T) {
	lost := clienttest.LostAnswer
	for name, c := range map[string]struct {
		last    clienttest.Reply
		unknown bool
		is      error
	}{
		"nobody listens":                {clienttest.RefusedConnection, true, syscall.ECONNREFUSED},
		"the server stops":              {clienttest.Problem(503, "shutting_down", "not_stored"), true, problem.ErrUnknown},
		"the server takes no more":      {clienttest.Problem(429, "overloaded", "not_stored"), true, problem.ErrOverloaded},
		"the disk is full":              {clienttest.Problem(507, "disk_full", "not_stored"), true, problem.ErrOverloaded},
		"the key was used for another":  {clienttest.Problem(422, "key_reused", "not_stored"), false, problem.ErrKeyReused},
		"the answer was lost once more": {lost, true, problem.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := client.TextJob("t", "x")
				j.Key = client.NewKey()
				f := clienttest.InTurn(lost, c.last)
				_, err := f.Client(client.Options{RetryFor: 200 * time.Millisecond}).Create(t.Context(), j)
				testkit.Holds(t, len(f.Calls) >= 2 && errors.Is(err, problem.ErrUnknown) == c.unknown &&
					!errors.Is(err, problem.ErrUnavailable) && errors.Is(err, c.is), "after", len(f.Calls), "tries", err)
				var refused *problem.Error
				testkit.Equal(t, errors.As(err, &refused), c.last.Err == nil, err, "is the server's refusal", refused)
			})
		})
	}
}
