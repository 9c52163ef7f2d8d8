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
	testkit.Holds(t, of.Client == "" && of.Type == "resize" && of.Version == 1 && of.Newest && strings.HasPrefix(of.Digest, "sha256:") &&
		of.Document.Source == script.Source && *of.Document.Options == *script.Options, "stored", of)
	again := put("", script)
	testkit.Holds(t, again.ID == of.ID, "stored again", again)
	first := put("acme", handler.Document{Kind: handler.HTTP, URL: "http://127.0.0.1:1/"})
	second := put("acme", handler.Document{Kind: handler.Exec, Program: "resize"})
	got := testkit.Must(c.Handler(ctx, "acme", "resize", 0))(t)
	testkit.Holds(t, got.ID == second.ID && got.Document.Program == "resize", "newest", got)
	got = testkit.Must(c.HandlerVersion(ctx, first.ID))(t)
	testkit.Holds(t, !got.Newest && got.Document.URL == "http://127.0.0.1:1/", "by id", got)
	versions, err := c.HandlerHistory(ctx, "acme", "resize")
	testkit.Holds(t, err == nil && len(versions) == 2 && versions[0].ID == second.ID && versions[1].ID == first.ID &&
		versions[0].Document == nil, "versions", versions, err)
	var all []string
	for h, err := range c.Handlers(ctx) {
		testkit.NoError(t, err)
		all = append(all, h.ID)
	}
	testkit.EqualSlices(t, all, []string{of.ID, second.ID}, "all")
	job := client.TextJob("resize", "x")
	job.Client = "acme"
	for range 2 {
		testkit.Must(c.Create(ctx, job))(t)
	}
	named := []client.ClaimHandler{{ID: second.ID, Client: "acme", Type: "resize", Kind: "exec", Digest: second.Digest}}
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 1}))(t)
	testkit.Holds(t, claim != nil && slices.Equal(claim.Handlers, named), "a claim", claim)
	s := testkit.Must(c.OpenStream(ctx, client.StreamOptions{RunnerID: "r"}))(t)
	defer s.Close()
	pushed := make(chan *client.Claim, 1)
	testkit.Must(s.Subscribe(ctx, client.SubscribeOptions{Credit: 1, Take: func(claim *client.Claim) { pushed <- claim }}))(t)
	testkit.EqualSlices(t, (<-pushed).Handlers, named, "a push")
	s.Close()
	testkit.Check(t, c.DeleteHandler(ctx, "acme", "resize"))
	for name, err := range map[string]error{
		"deleted twice":      c.DeleteHandler(ctx, "acme", "resize"),
		"read after its end": errorOf(c.Handler(ctx, "acme", "resize", 0)),
		"by id":              errorOf(c.HandlerVersion(ctx, first.ID)),
	} {
		testkit.Holds(t, errors.Is(err, problem.ErrNotFound), name, err)
	}
	history, err := c.HandlerHistory(ctx, "acme", "resize")
	testkit.Holds(t, err == nil && len(history) == 3 && history[0].Deleted && history[0].Version == 3 && history[1].Gone &&
		history[1].Digest == second.Digest, "history", history, err)
	testkit.Fails(c.PutHandler(ctx, "", "a b", script))(t, problem.ErrBadRequest)
	testkit.Fails(c.PutHandler(ctx, "", "resize", handler.Document{Kind: "wasm"}))(t, problem.ErrBadRequest)
}

func errorOf[T any](_ T, err error) error { return err }
