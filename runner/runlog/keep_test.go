package runlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// puts stores blobs for tests. While errs has errors, it reads a few bytes and fails.
type puts struct {
	errs  []error
	calls int
	text  string
}

func (p *puts) Put(_ context.Context, _ string, r io.Reader) (string, error) {
	p.calls++
	if len(p.errs) > 0 {
		err := p.errs[0]
		p.errs = p.errs[1:]
		io.CopyN(io.Discard, r, 5)
		return "", err
	}
	text, err := io.ReadAll(r)
	p.text = string(text)
	return "sha256:x", err
}

// TestKeep: when the server is reachable again, the whole log is stored. Other errors, and the time-out, lose the log.
func TestKeep(t *testing.T) {
	away := fmt.Errorf("the test: %w", client.ErrUnavailable)
	var always []error
	for range 1000 {
		always = append(always, away)
	}
	for name, tt := range map[string]struct {
		printed string
		errs    []error
		address string
		calls   int
		took    time.Duration // at least
	}{
		"at once":         {"some text", nil, "sha256:x", 1, 0},
		"nothing":         {"", nil, "", 0, 0},
		"away":            {"some text", []error{away, &client.Error{Status: 503}, fmt.Errorf("x: %w", client.ErrUnknown)}, "sha256:x", 4, 7 * time.Second},
		"refused":         {"some text", []error{&client.Error{Status: 507, Code: "disk_full"}}, "", 1, 0},
		"away and broken": {"some text", []error{away, errors.New("broken")}, "", 2, time.Second},
		"away for long":   {"some text", always, "", 0, keepTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				blobs := &puts{errs: tt.errs}
				k := &Keeper{Blobs: blobs}
				l := testkit.Must(k.Begin(t.Context(), &client.Job{ID: "job"}, MinBytes, dir))(t)
				testkit.Must(io.WriteString(l, tt.printed))(t)
				began := time.Now()
				if got := l.Keep(t.Context()); got != tt.address || blobs.calls != tt.calls && tt.calls > 0 {
					t.Errorf("the address is %q after %d calls", got, blobs.calls)
				}
				took := time.Since(began)
				testkit.Holds(t, took >= tt.took && took <= tt.took+maxPause, "it took", took)
				want := int64(0)
				if tt.address != "" {
					want = int64(len(tt.printed))
					testkit.Equal(t, blobs.text, tt.printed, "was stored")
				}
				testkit.Check(t, errors.Join(l.Close(), l.Close()))
				printed, kept := k.Bytes()
				testkit.Holds(t, printed == int64(len(tt.printed)) && kept == want, printed, "bytes were printed", kept, "kept")
				testkit.Equal(t, len(testkit.Must(os.ReadDir(dir))(t)), 0, "are left")
			})
		})
	}
}

// TestKeepWithoutServer: a log that is neither sent nor stored still has a Tail.
func TestKeepWithoutServer(t *testing.T) {
	k := &Keeper{}
	l := testkit.Must(k.Begin(t.Context(), &client.Job{}, MinBytes, t.TempDir()))(t)
	defer l.Close()
	l.Write(bytes.Repeat([]byte("line\n"), 100_000))
	if tail := l.Tail(); l.Keep(t.Context()) != "" || !strings.HasSuffix(tail, "line\nline") || len(tail) > errorBytes || l.Bytes() != 500_000 {
		t.Errorf("%d bytes, a tail of %d", l.Bytes(), len(tail))
	}
	testkit.Fails(k.Begin(t.Context(), &client.Job{}, MinBytes, "/dev/null/none"))(t)
}
