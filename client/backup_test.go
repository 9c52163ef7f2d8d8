package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/testkit"
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
		testkit.Equal(t, r.URL.Path, "/backup", r.Method, r.URL)
		testkit.Equal(t, r.Method, http.MethodGet, r.URL)
		_, _ = io.WriteString(w, "all of it") // a client that has disconnected gets nothing
	}
	got, err := read(c)
	testkit.Holds(t, got == "all of it" && err == nil, got, err)
	serve = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a part")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	testkit.Fails(read(c))(t, problem.ErrUnavailable)
	serve = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a part")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	testkit.Fails(read(impatient))(t, problem.ErrUnavailable)
	serve = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"code":"backup_running","outcome":"not_stored"}`)
	}
	var refused *problem.Error
	_, err = read(c)
	testkit.Holds(t, errors.Is(err, problem.ErrConflict) && errors.As(err, &refused) && refused.Code == "backup_running", "a refusal", err)

	serve = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"clients":["acme","bob"]}`) }
	names := testkit.Must(c.BlobClients(t.Context()))(t)
	testkit.Holds(t, len(names) == 2 && names[0] == "acme", names)
}
