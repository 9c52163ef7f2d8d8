package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// TestKeySource: each try of a request has the key of its moment, and one without a key is not sent.
func TestKeySource(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"name":"x","roles":[]}`))
	}))
	defer s.Close()
	keys := []string{"one", "", "two"}
	broken := errors.New("no token now")
	c := client.New(s.URL, client.Options{RetryFor: time.Minute, Key: "unused", KeySource: func(context.Context) (string, error) {
		key := keys[0]
		keys = keys[1:]
		if key == "" {
			return "", broken
		}
		return key, nil
	}})
	for range 2 { // the second one is repeated
		if _, err := c.Whoami(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Equal(t, len(got), 2)
	testkit.Equal(t, got[0]+", "+got[1], "Bearer one, Bearer two")
	failing := client.New(s.URL, client.Options{RetryFor: -1, KeySource: func(context.Context) (string, error) { return "", broken }})
	for _, err := range []error{second(failing.Whoami(t.Context())), second(failing.OpenStream(t.Context(), client.StreamOptions{}))} {
		if !errors.Is(err, client.ErrUnavailable) || !errors.Is(err, broken) {
			t.Errorf("without a key, the error is %v", err)
		}
	}
	testkit.Equal(t, len(got), 2)
}

func second[T any](_ T, err error) error { return err }
