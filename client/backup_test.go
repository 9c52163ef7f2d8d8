package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/problem"
)

// TestBackup: a backup is read to its end. A stream that breaks, a silent server, and a refusal are errors.
func TestBackup(t *testing.T) {
	var serve http.HandlerFunc
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r) }))
	defer s.Close()
	c := client.New(s.URL, client.Options{RetryFor: -1})
	impatient := client.New(s.URL, client.Options{RetryFor: -1, Timeout: 100 * time.Millisecond})
	read := func(c *client.Client) (string, error) {
		r, err := c.Backup(t.Context())
		if err != nil {
			return "", err
		}
		content, err := io.ReadAll(r)
		return string(content), errors.Join(err, r.Close())
	}

	serve = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/backup" || r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_, _ = io.WriteString(w, "all of it") // a client that has disconnected gets nothing
	}
	if got, err := read(c); got != "all of it" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	serve = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a part")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if got, err := read(c); !errors.Is(err, problem.ErrUnavailable) {
		t.Errorf("a stream that breaks: %q, %v", got, err)
	}
	serve = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a part")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	if got, err := read(impatient); !errors.Is(err, problem.ErrUnavailable) {
		t.Errorf("a silent server: %q, %v", got, err)
	}
	serve = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"code":"backup_running","outcome":"not_stored"}`)
	}
	var refused *problem.Error
	if _, err := read(c); !errors.Is(err, problem.ErrConflict) || !errors.As(err, &refused) || refused.Code != "backup_running" {
		t.Errorf("a refusal: %v", err)
	}

	serve = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"clients":["acme","bob"]}`) }
	if names, err := c.BlobClients(t.Context()); err != nil || len(names) != 2 || names[0] != "acme" {
		t.Errorf("%v, %v", names, err)
	}
}
