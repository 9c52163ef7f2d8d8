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
	"github.com/daybookq/daybook/client/internal/testkit"
)

// Requests that are safe to repeat are repeated after failures that may soon pass.
func TestRepeatingReadsAndClaims(t *testing.T) {
	for name, first := range map[string]reply{
		"lost answer": lostAnswer, "connection refused": refusedConnection, "no answer in time": {after: -1},
		"502": {status: 502}, "503": {status: 503}, "504": {status: 504}, "429": {status: 429}, "408": problem(408, "body_too_slow", "not_stored"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := inTurn(first, reply{status: 204})
				claim, err := f.client(client.Options{RetryFor: time.Minute}).Claim(t.Context(), client.ClaimRequest{RunnerID: "r"})
				if claim != nil || err != nil || len(f.calls) != 2 {
					t.Errorf("%v, %v after %d requests", claim, err, len(f.calls))
				}
			})
		})
	}
	for name, only := range map[string]reply{"500": problem(500, "internal", "unknown"), "507": problem(507, "disk_full", "not_stored"), "404 of a proxy": {status: 404}} {
		t.Run(name+" is not repeated", func(t *testing.T) {
			f := inTurn(only)
			_, err := f.client(client.Options{}).Claim(t.Context(), client.ClaimRequest{RunnerID: "r"})
			if err == nil || len(f.calls) != 1 {
				t.Errorf("%v after %d requests", err, len(f.calls))
			}
		})
	}
	t.Run("a read whose answer was lost is not ErrUnknown", func(t *testing.T) {
		f := inTurn(lostAnswer)
		_, err := f.client(client.Options{RetryFor: -1}).Job(t.Context(), testID(0))
		if !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown) {
			t.Error(err)
		}
	})
	t.Run("a change without a claim is not repeated", func(t *testing.T) {
		f := inTurn(lostAnswer)
		_, err := f.client(client.Options{}).Complete(t.Context(), testID(0), "", client.Outcome{})
		if !errors.Is(err, client.ErrUnknown) || len(f.calls) != 1 {
			t.Errorf("%v after %d requests", err, len(f.calls))
		}
	})
	t.Run("Retry-After is obeyed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			busy := problem(429, "overloaded", "not_stored")
			busy.header = http.Header{"Retry-After": {"7"}}
			f, began := inTurn(busy, reply{status: 204}), time.Now()
			if _, err := f.client(client.Options{}).Claim(t.Context(), client.ClaimRequest{RunnerID: "r"}); err != nil || time.Since(began) != 7*time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
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
			err = ask(inTurn(reply{after: -1}).client(o))
			took = time.Since(began)
		})
		return took, err
	}
	ping := func(c *client.Client) error { return c.Ping(context.Background()) }
	t.Run("30 s by default", func(t *testing.T) {
		if d, err := took(t, ping, client.Options{}); d != 30*time.Second || !errors.Is(err, client.ErrUnavailable) || errors.Is(err, context.Canceled) {
			t.Errorf("%v after %v", err, d)
		}
	})
	t.Run("as set in Options", func(t *testing.T) {
		if d, err := took(t, ping, client.Options{Timeout: time.Second}); d != time.Second || err == nil {
			t.Errorf("%v after %v", err, d)
		}
	})
	t.Run("a claim's wait is added", func(t *testing.T) {
		claim := func(c *client.Client) error {
			_, err := c.Claim(context.Background(), client.ClaimRequest{RunnerID: "r", Wait: 20 * time.Second})
			return err
		}
		d, err := took(t, claim, client.Options{})
		if d < 50*time.Second || d > 51*time.Second || err == nil {
			t.Errorf("%v after %v", err, d)
		}
	})
	t.Run("the time for a long body is added", func(t *testing.T) {
		add := func(c *client.Client) error {
			_, err := c.AddLines(context.Background(), make([]byte, 2<<20), client.AddOptions{})
			return err
		}
		if d, err := took(t, add, client.Options{}); d != 38*time.Second || !errors.Is(err, client.ErrUnknown) {
			t.Errorf("%v after %v", err, d)
		}
	})
	t.Run("an answer that arrives slowly does not time out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := inTurn(reply{status: 200, stream: &dripping{left: 10, every: 20 * time.Second}})
			testkit.Check(t, f.client(client.Options{RetryFor: -1}).Ping(t.Context()))
		})
	})
}

func TestAnswersThatAreTooLarge(t *testing.T) {
	f := inTurn(reply{status: 200, stream: endless{}})
	_, err := f.client(client.Options{}).Claim(t.Context(), client.ClaimRequest{RunnerID: "r", Max: 1000})
	if !errors.Is(err, client.ErrUnexpectedAnswer) || errors.Is(err, client.ErrUnknown) || len(f.calls) != 1 {
		t.Errorf("%v after %d requests: each may have handed out jobs", err, len(f.calls))
	}
	if n := f.calls[0].body["max_bytes"]; n != 8.0*(1<<20) {
		t.Errorf("asked for max_bytes %v", n)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	f := inTurn(reply{status: 302, header: http.Header{"Location": {"http://elsewhere/"}}})
	err := f.client(client.Options{}).Ping(t.Context())
	if !errors.Is(err, client.ErrUnexpectedAnswer) || len(f.calls) != 1 {
		t.Errorf("%v after %d requests", err, len(f.calls))
	}
}

// Every code that docs/reference/errors.md lists has a sentinel, or is listed here as a code without one.
func TestCodesHaveSentinels(t *testing.T) {
	all := []error{
		client.ErrBadRequest, client.ErrNotFound, client.ErrNotActive, client.ErrClaimLost, client.ErrOutcomeDiffers, client.ErrRunnerDiffers,
		client.ErrCancelled, client.ErrConflict, client.ErrKeyHeld, client.ErrKeyReused, client.ErrSessionNotFound, client.ErrNumberPassed, client.ErrTooLarge, client.ErrNoBlobs, client.ErrBlobDamaged, client.ErrForbidden, client.ErrOverloaded, client.ErrUnavailable,
		client.ErrRunnerTaken, client.ErrRunnerReplaced, client.ErrRunnerLost,
	}
	without := map[string]bool{"route_not_found": true, "method_not_allowed": true, "client_gone": true, "internal": true, "store_damaged": true}
	doc := testkit.Must(os.ReadFile("../docs/reference/errors.md"))(t)
	codes := 0
	for _, m := range regexp.MustCompile("(?m)^\\| \\d{3} \\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		codes++
		found := 0
		for _, sentinel := range all {
			if errors.Is(&client.Error{Code: m[1], Outcome: "not_stored"}, sentinel) {
				found++
			}
		}
		if want := 1; found != want && !without[m[1]] || without[m[1]] && found != 0 {
			t.Errorf("%s has %d sentinels", m[1], found)
		}
	}
	if codes < 20 {
		t.Errorf("found %d codes in the document", codes)
	}
}

// The refusal of a repeat applies to the repeat only. If the answer of an earlier try was lost, that try may have been
// stored.
func TestARefusedRepeatDoesNotProveThatNothingWasStored(t *testing.T) {
	lost := lostAnswer
	for name, c := range map[string]struct {
		last    reply
		unknown bool
		is      error
	}{
		"nobody listens":                {refusedConnection, true, syscall.ECONNREFUSED},
		"the server stops":              {problem(503, "shutting_down", "not_stored"), true, client.ErrUnknown},
		"the server takes no more":      {problem(429, "overloaded", "not_stored"), true, client.ErrOverloaded},
		"the disk is full":              {problem(507, "disk_full", "not_stored"), true, client.ErrOverloaded},
		"the key was used for another":  {problem(422, "key_reused", "not_stored"), false, client.ErrKeyReused},
		"the answer was lost once more": {lost, true, client.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := client.TextJob("t", "x")
				j.Key = client.NewKey()
				f := inTurn(lost, c.last)
				_, err := f.client(client.Options{RetryFor: 200 * time.Millisecond}).Create(t.Context(), j)
				if len(f.calls) < 2 || errors.Is(err, client.ErrUnknown) != c.unknown || errors.Is(err, client.ErrUnavailable) || !errors.Is(err, c.is) {
					t.Errorf("after %d tries: %v", len(f.calls), err)
				}
				var refused *client.Error
				if errors.As(err, &refused) != (c.last.err == nil) {
					t.Errorf("%v is the server's refusal %v", err, refused)
				}
			})
		})
	}
}
