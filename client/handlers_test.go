package client_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job/handler"
)

// TestHandlers stores, reads and deletes handlers of a real server.
func TestHandlers(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx := t.Context()
	put := func(owner string, d handler.Document) client.StoredHandler {
		t.Helper()
		return testkit.Must(c.PutHandler(ctx, owner, "resize", d))(t)
	}
	script := handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return payload", Options: &handler.Options{BatchSize: 100}}
	of := put("", script)
	if of.Client != "" || of.Type != "resize" || of.Version != 1 || !of.Newest || !strings.HasPrefix(of.Digest, "sha256:") || of.Document.Source != script.Source || *of.Document.Options != *script.Options {
		t.Errorf("stored: %+v", of)
	}
	if again := put("", script); again.ID != of.ID {
		t.Errorf("stored again: %+v", again)
	}
	first := put("acme", handler.Document{Kind: handler.HTTP, URL: "http://127.0.0.1:1/"})
	second := put("acme", handler.Document{Kind: handler.Exec, Program: "resize"})
	if got, err := c.Handler(ctx, "acme", "resize", 0); err != nil || got.ID != second.ID || got.Document.Program != "resize" {
		t.Errorf("newest: %+v, %v", got, err)
	}
	if got, err := c.HandlerVersion(ctx, first.ID); err != nil || got.Newest || got.Document.URL != "http://127.0.0.1:1/" {
		t.Errorf("by id: %+v, %v", got, err)
	}
	versions, err := c.HandlerHistory(ctx, "acme", "resize")
	if err != nil || len(versions) != 2 || versions[0].ID != second.ID || versions[1].ID != first.ID || versions[0].Document != nil {
		t.Errorf("versions: %+v, %v", versions, err)
	}
	var all []string
	for h, err := range c.Handlers(ctx) {
		testkit.NoError(t, err)
		all = append(all, h.ID)
	}
	if !slices.Equal(all, []string{of.ID, second.ID}) {
		t.Errorf("all: %v", all)
	}
	job := client.TextJob("resize", "x")
	job.Client = "acme"
	for range 2 {
		testkit.Must(c.Create(ctx, job))(t)
	}
	named := []client.ClaimHandler{{ID: second.ID, Client: "acme", Type: "resize", Kind: "exec", Digest: second.Digest}}
	if claim, err := c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 1}); err != nil || claim == nil || !slices.Equal(claim.Handlers, named) {
		t.Errorf("a claim: %+v, %v", claim, err)
	}
	s := testkit.Must(c.OpenStream(ctx, client.StreamOptions{RunnerID: "r"}))(t)
	defer s.Close()
	pushed := make(chan *client.Claim, 1)
	testkit.Must(s.Subscribe(ctx, client.SubscribeOptions{Credit: 1, Take: func(claim *client.Claim) { pushed <- claim }}))(t)
	if claim := <-pushed; !slices.Equal(claim.Handlers, named) {
		t.Errorf("a push: %+v", claim)
	}
	s.Close()
	testkit.Check(t, c.DeleteHandler(ctx, "acme", "resize"))
	for name, err := range map[string]error{
		"deleted twice":      c.DeleteHandler(ctx, "acme", "resize"),
		"read after its end": errorOf(c.Handler(ctx, "acme", "resize", 0)),
		"by id":              errorOf(c.HandlerVersion(ctx, first.ID)),
	} {
		if !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	history, err := c.HandlerHistory(ctx, "acme", "resize")
	if err != nil || len(history) != 3 || !history[0].Deleted || history[0].Version != 3 || !history[1].Gone || history[1].Digest != second.Digest {
		t.Errorf("history: %+v, %v", history, err)
	}
	if _, err := c.PutHandler(ctx, "", "a b", script); !errors.Is(err, problem.ErrBadRequest) {
		t.Errorf("a type with a space: %v", err)
	}
	if _, err := c.PutHandler(ctx, "", "resize", handler.Document{Kind: "wasm"}); !errors.Is(err, problem.ErrBadRequest) {
		t.Errorf("an unknown kind: %v", err)
	}
}

func errorOf[T any](_ T, err error) error { return err }
