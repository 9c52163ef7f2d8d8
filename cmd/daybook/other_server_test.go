package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// TestAnswersOfOthers: if another program answers, each command reports this with its exit code.
func TestAnswersOfOthers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>welcome</html>") }))
	defer other.Close()
	for _, verb := range []string{"queues", "jobs", "batches", "stats", "runners", "sweeps", "disk", "get " + sampleID, "get --batch " + sampleID, "clock", "results " + sampleID,
		"handler ls", "fileset ls", "handler history x", "fileset history input", "blob ls", "create x", "claim", "cancel " + sampleID, "pause a/b", "stop", "watch a/b", "top --once",
		"queues --json", "jobs --json", "stats --json", "clock --json", "get --json " + sampleID, "get --json --batch " + sampleID, "runners --json", "runners --json r"} {
		r := execute(t, "", append(strings.Fields(verb), "--server", other.URL)...)
		r.ends(t, terminal.ExitNoAnswer, "the answer is not that of a Daybook server")
	}
}

// TestWatchTimeoutOfSilentServer: --timeout bounds the first request, too.
func TestWatchTimeoutOfSilentServer(t *testing.T) {
	silent := make(chan struct{})
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	}))
	defer other.Close()
	defer close(silent)
	execute(t, "", "watch", "a/b", "--timeout", "100ms", "--server", other.URL).ends(t, terminal.ExitTimeout)
}
