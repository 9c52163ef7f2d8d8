package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestPing: ping fails while the server is not ready, or with --wait tries again until it is.
func TestPing(t *testing.T) {
	var asked atomic.Int64
	readyAt := int64(3)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testkit.Equal(t, r.URL.Path, "/readyz")
		if asked.Add(1) < readyAt {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":503,"code":"not_ready","detail":"the journal is being replayed","outcome":"not_stored"}`))
			return
		}
		_, _ = w.Write([]byte(`{"status":"ready"}`))
	}))
	defer s.Close()
	execute(t, "", "ping", "--server", s.URL).ends(t, terminal.ExitRefused, "the journal is being replayed")
	testkit.Equal(t, ok(t, "ping", "--wait", "1m", "--server", s.URL), "ready\n")
	testkit.Equal(t, asked.Load(), readyAt)
	testkit.Equal(t, ok(t, "ping", "--json", "--server", s.URL), "{\"status\":\"ready\"}\n")
	execute(t, "", "ping", "--wait", "-1s", "--server", s.URL).ends(t, terminal.ExitUsage)
}
