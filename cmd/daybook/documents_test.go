package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestDocumentsAreThoseOfTheServer: --json prints the server's documents unchanged, with null and with fields that this
// version of the program may not know.
func TestDocumentsAreThoseOfTheServer(t *testing.T) {
	s := serving(t, t.TempDir(), "--blobs", t.TempDir())
	batch := strings.TrimSpace(ok(t, "add", "--server", s.url, "--type", "docs", written(t, "in", "a\nb\n")))
	ok(t, "cancel", "--server", s.url, "--batch", batch)
	ok(t, "create", "--server", s.url, "--type", "waits", "x")
	handler := written(t, "handler.json", `{"kind":"exec","program":"cat"}`)
	ok(t, "handler", "put", "--server", s.url, "docs", handler)
	files := t.TempDir()
	ok(t, "fileset", "push", "--server", s.url, files, "docs")
	get := func(path string) string {
		t.Helper()
		resp := testkit.Must(http.Get(s.url + path))(t)
		defer resp.Body.Close()
		text := testkit.Must(io.ReadAll(resp.Body))(t)
		testkit.MustEqual(t, resp.StatusCode, http.StatusOK, path, resp.Status, string(text))
		return strings.TrimSpace(string(text))
	}
	first := func(path, list string) string {
		var page map[string]json.RawMessage
		var all []json.RawMessage
		testkit.NoError(t, json.Unmarshal([]byte(get(path)), &page))
		err := json.Unmarshal(page[list], &all)
		testkit.MustHold(t, err == nil && len(all) != 0, path, page, err)
		return string(all[0])
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"watch " + batch, get("/batches/" + batch)},
		{"watch default/docs", get("/queues/default/docs")},
		{"pause default/docs", ""},
		{"batches --limit 1", first("/batches", "batches")},
		{"fileset history docs", first("/filesets", "filesets")},
		{"handler ls", first("/handlers", "handlers")},
		{"handler get docs", get("/handlers/docs")},
	} {
		r := execute(t, "", append(strings.Fields(c.args), "--json", "--server", s.url)...)
		got := strings.TrimSpace(r.out)
		if i := strings.LastIndexByte(got, '\n'); i >= 0 {
			got = got[i+1:]
		}
		if c.want == "" { // the command changes the document
			c.want = get("/queues/default/docs")
		}
		testkit.Equal(t, got, c.want, c.args, r.code, r.errs)
	}
	testkit.Contains(t, ok(t, "cancel", "--server", s.url, "--queue", "default/waits", "--json"), `"sweep_id":null`)
}
