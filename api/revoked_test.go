package api

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// ask sends the head of a request, and a part of its body.
func (r *rig) ask(method, path, key, headers string) (sent *bufio.Reader, w io.Writer) {
	r.Helper()
	c := r.dial()
	r.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	if key != "" {
		headers += "Authorization: Bearer " + key + "\r\n"
	}
	testkit.Must(fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, path, headers))(r)
	return bufio.NewReader(c), c
}

// TestRequestsEndWithTheirKeys: when a key is revoked, its requests that wait or transfer end: with 401 if the answer has not begun, and
// otherwise in the middle. A key that was rotated, and whose old secret is good for a while, is the same.
func TestRequestsEndWithTheirKeys(t *testing.T) {
	r := start(t)
	early, _ := r.ask(http.MethodGet, "/jobs/"+r.make(`{"type":"early"}`)+"/output?wait_ms=60000", "", "")
	r.until("the request waits", func() bool { return r.server.web.Lasts() == 1 })
	admin := r.newKey("", "boss", "admin")
	r.server.web.EndRefused()
	a := testkit.Must(http.ReadResponse(early, nil))(t)
	testkit.Equal(t, a.StatusCode, http.StatusUnauthorized, "without a key, when the first key is made")

	batch := r.add("/add", "one\n", as(admin)...).object(http.StatusCreated)["batch_id"].(string)
	id := r.post("/jobs/create", `{}`, as(admin)...).object(http.StatusCreated)["job_id"].(string)
	blob := strings.Repeat("0123456789abcdef", 1<<20) // too long for the buffers of a connection
	address := r.do(http.MethodPut, "/blobs", strings.NewReader(blob), as(admin)...).object(http.StatusCreated)["address"].(string)
	random := make([]byte, 2<<20) // in hex, it has twice as many digits
	for range 8 {
		testkit.Must(rand.Read(random))(t)
		r.add("/add", hex.EncodeToString(random)+"\n", as(admin)...).wantStatus(http.StatusCreated)
	}
	upload := r.do(http.MethodPost, "/uploads", nil, append(as(admin), "Upload-Length", "1000")...).header.Get("Location")

	for i, c := range []struct {
		role, method, path, headers, body string
		begun                             bool
	}{
		{"reader", "GET", "/jobs/" + id + "/output?wait_ms=60000", "", "", false},
		{"reader", "GET", "/jobs/" + id + "/output?w%61it_ms=60000", "", "", false},
		{"reader", "GET", "/batches/" + batch + "?wait_ms=60000", "", "", false},
		{"reader", "GET", "/batches/" + batch + "/results?follow=true", "", "", true},
		{"reader", "GET", "/jobs/" + id + "/log?follow=true", "", "", true},
		{"worker", "POST", "/jobs/claim", "Content-Type: application/json\r\nContent-Length: 50\r\n", `{"runner_id":"r","types":["none"],"wait_ms":60000}`, false},
		{"producer", "PUT", "/blobs", "Content-Length: 1000\r\n", "a part", false},
		{"producer", "PUT", "/filesets/f", "Content-Type: application/x-tar\r\nContent-Length: 1000\r\n", "a part", false},
		{"producer", "PATCH", upload, "Upload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: 1000\r\n", "a part", false},
		{"reader", "GET", "/blobs/" + address, "", "", true},
		{"backup", "GET", "/backup", "", "", true},
	} {
		t.Run(strings.ReplaceAll(c.method+" "+c.path, "/", " "), func(t *testing.T) {
			name := fmt.Sprint("k", i)
			key := r.newKey(admin, name, c.role)
			sent, w := r.ask(c.method, c.path, key, c.headers)
			testkit.Must(io.WriteString(w, c.body))(t)
			testkit.Eventually(t, "the request lasts", func() bool { return r.server.web.Lasts() == 1 })
			r.post("/keys/"+name+"/rotate", `{"overlap_ms":3600000}`, as(admin)...).object(http.StatusOK)
			r.server.web.EndRefused()
			testkit.Equal(t, r.server.web.Lasts(), 1, "rotated")
			var a *http.Response
			if c.begun {
				a = testkit.Must(http.ReadResponse(sent, nil))(t)
				testkit.Equal(t, a.StatusCode, http.StatusOK)
			}
			testkit.Equal(t, r.do(http.MethodDelete, "/keys/"+name, nil, as(admin)...).status, http.StatusNoContent)
			r.server.web.EndRefused()
			if !c.begun {
				a = testkit.Must(http.ReadResponse(sent, nil))(t)
				text := testkit.Must(io.ReadAll(a.Body))(t)
				testkit.Holds(t, a.StatusCode == http.StatusUnauthorized && strings.Contains(string(text), "key_refused"), a.StatusCode, string(text))
			} else if n, err := io.Copy(io.Discard, a.Body); err == nil {
				t.Error("the answer looks complete:", n, "bytes")
			}
			testkit.Eventually(t, "the request ends", func() bool { return r.server.web.Lasts() == 0 })
		})
	}
}

// TestSlowBodyOfARevokedKey: a request whose key was revoked while its body arrived is not carried out.
func TestSlowBodyOfARevokedKey(t *testing.T) {
	r := start(t)
	r.server.web.SlowBody = 0
	admin := r.newKey("", "boss", "admin")
	key := r.newKey(admin, "shop", "producer")
	const body = `{"type":"slow"}`
	sent, w := r.ask(http.MethodPost, "/jobs/create", key, fmt.Sprintf("Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n", len(body)))
	testkit.Equal(t, testkit.Must(sent.ReadString('\n'))(t), "HTTP/1.1 100 Continue\r\n") // the handler reads the body
	testkit.Must(sent.ReadString('\n'))(t)
	testkit.Equal(t, r.do(http.MethodDelete, "/keys/shop", nil, as(admin)...).status, http.StatusNoContent)
	testkit.Must(io.WriteString(w, body))(t)
	testkit.Equal(t, testkit.Must(http.ReadResponse(sent, nil))(t).StatusCode, http.StatusUnauthorized)
	testkit.Equal(t, len(r.get("/jobs", as(admin)...).object(http.StatusOK)["jobs"].([]any)), 0)
}

// TestKeyOfAnotherScope: a request does not go on with a key of the same text that is for something else.
func TestKeyOfAnotherScope(t *testing.T) {
	r := start(t)
	admin := r.newKey("", "boss", "admin")
	text := job.KeyText("k", [job.SecretBytes]byte{9})
	_, sum, err := job.ParseKeyText(text)
	testkit.NoError(t, err)
	make := func(clients string) {
		r.post("/keys", fmt.Sprintf(`{"name":"k","roles":["reader"],"sha256":%q%s}`, sum, clients), as(admin)...).object(http.StatusCreated)
	}
	make("")
	id := r.post("/jobs/create", `{}`, as(admin)...).object(http.StatusCreated)["job_id"].(string)
	sent, _ := r.ask(http.MethodGet, "/jobs/"+id+"/output?wait_ms=60000", text, "")
	r.until("the request waits", func() bool { return r.server.web.Lasts() == 1 })
	testkit.Equal(t, r.do(http.MethodDelete, "/keys/k", nil, as(admin)...).status, http.StatusNoContent)
	make(`,"clients":["acme"]`)
	r.server.web.EndRefused()
	testkit.Equal(t, testkit.Must(http.ReadResponse(sent, nil))(t).StatusCode, http.StatusUnauthorized)
}

// revokedSnapshot revokes a key while a snapshot is taken for a request with it.
type revokedSnapshot struct {
	backend.Engine
	revoke func()
}

func (e revokedSnapshot) Snapshot() (*ingest.Snapshot, error) {
	s, err := e.Engine.Snapshot()
	e.revoke()
	return s, err
}

// TestBackupOfARevokedKey: when a key is revoked before the first byte of a backup, the snapshot is removed.
func TestBackupOfARevokedKey(t *testing.T) {
	r := start(t)
	admin := r.newKey("", "boss", "admin")
	key := r.newKey(admin, "saver", "backup")
	engine := r.server.backups.engine
	r.server.backups.engine = revokedSnapshot{engine, func() {
		testkit.Equal(t, r.do(http.MethodDelete, "/keys/saver", nil, as(admin)...).status, http.StatusNoContent)
		r.server.web.EndRefused()
	}}
	sent, _ := r.ask(http.MethodGet, "/backup", key, "")
	testkit.Fails(http.ReadResponse(sent, nil))(t, io.ErrUnexpectedEOF)
	r.until("the request ends", func() bool { return r.server.web.Lasts() == 0 })
	testkit.Fails(os.Stat(filepath.Join(r.dir, "backup-checkpoint")))(t, os.ErrNotExist)
	r.server.backups.engine = engine
	r.get("/backup", as(admin)...).wantStatus(http.StatusOK)
}
