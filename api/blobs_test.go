package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/internal/testkit"
)

// maxTestBlob is the largest blob in the tests of this package.
const maxTestBlob = 16 << 20

// streamsBody reports whether a route stores its body while the body arrives.
func streamsBody(method, path string) bool {
	return method == http.MethodPut && (strings.HasPrefix(path, "/blob") || strings.HasPrefix(path, "/filesets/")) ||
		(method == http.MethodPost || method == http.MethodPatch) && strings.HasPrefix(path, "/uploads")
}

func sha256Of(content string) [sha256.Size]byte { return sha256.Sum256([]byte(content)) }

func addressOf(content string) string { return blob.Address(sha256Of(content)).String() }

// testBlobs are the blobs of a server under test. Its clock can be moved, and its store can fail.
type testBlobs struct {
	Blobs
	dir string

	mu    sync.Mutex
	later time.Duration
	err   error
}

// newBlobs returns the blobs of a server with an engine.
func newBlobs(t testing.TB, catchUp func(ctx context.Context, minSeq uint64) error, rows func(visit func(key string, value []byte) bool) error, o blob.Options) *testBlobs {
	t.Helper()
	b := &testBlobs{dir: filepath.Join(t.TempDir(), "blobs")}
	o.Hooks.Now = func() time.Time {
		b.mu.Lock()
		defer b.mu.Unlock()
		return time.Now().Add(b.later)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = maxTestBlob
	}
	of := testkit.Must(blob.OpenDir(t.Context(), b.dir, o))(t)
	t.Cleanup(func() { testkit.Check(t, of.Close()) })
	b.Store = func() (*blob.Store, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return of, b.err
	}
	b.Collector = &blob.Collector{Store: b.Store, Log: slog.New(slog.DiscardHandler), Scan: scanOf(catchUp, rows)}
	return b
}

// scanOf visits all rows of an engine that has caught up.
func scanOf(catchUp func(ctx context.Context, minSeq uint64) error, rows func(visit func(key string, value []byte) bool) error) func(context.Context, *blob.Store, func([]byte) error) error {
	return func(ctx context.Context, _ *blob.Store, visit func([]byte) error) error {
		if err := catchUp(ctx, 0); err != nil {
			return err
		}
		var failed error
		err := rows(func(_ string, value []byte) bool { failed = visit(value); return failed == nil })
		return errors.Join(failed, err)
	}
}

func (b *testBlobs) wait(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.later += d
}

func (b *testBlobs) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// put stores a blob.
func (r *rig) put(path, content string, headers ...string) reply {
	r.Helper()
	return r.do(http.MethodPut, path, strings.NewReader(content), headers...)
}

func TestBlobs(t *testing.T) {
	r := start(t)
	const content = "WILSON!"
	digits := strings.TrimPrefix(addressOf(content), "sha256:")
	sum := sha256Of(content)
	base := base64.StdEncoding.EncodeToString(sum[:])
	x := sha1.Sum([]byte(content))

	r.get("/blobs/"+addressOf(content)).refused(http.StatusNotFound, "blob_not_found")
	made := r.put("/blobs", content)
	made.wantStatus(http.StatusCreated)
	doc := made.object(http.StatusCreated)
	testkit.Holds(t, doc["address"] == addressOf(content) && doc["sha1"] == hex.EncodeToString(x[:]) && fmt.Sprint(doc["size"]) == "7" &&
		made.header.Get("Location") == "/blobs/"+addressOf(content), made.body, "Location", made.header.Get("Location"))
	r.put("/blobs", content).wantStatus(http.StatusOK)
	for _, form := range []string{addressOf(content), digits, strings.ToUpper(digits), "sha256-" + base, url.PathEscape("sha256-" + base), url.QueryEscape("sha256-" + base), hex.EncodeToString(x[:])} {
		for _, prefix := range []string{"/blobs/", "/blob/"} {
			a := r.get(prefix + form)
			a.wantStatus(http.StatusOK)
			if a.body != content || a.header.Get("ETag") != `"`+addressOf(content)+`"` || a.header.Get("Repr-Digest") != "sha-256=:"+base+":" || a.header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("%s: %q with %v", form, a.body, a.header)
			}
			head := r.do(http.MethodHead, prefix+form, nil)
			head.wantStatus(http.StatusOK)
			testkit.Equal(t, head.header.Get("Content-Length"), "7", "HEAD", form, head.header)
		}
		r.put("/blobs/"+form, content).wantStatus(http.StatusOK)
		r.put("/blobs/"+form, "WILSON?").refused(http.StatusUnprocessableEntity, "wrong_digest")
	}
	// An address with slashes in base64.
	slashed, sri := "", ""
	for i := 0; !strings.Contains(sri, "/") || !strings.Contains(sri, "+"); i++ {
		slashed = strconv.Itoa(i)
		sum := sha256Of(slashed)
		sri = base64.StdEncoding.EncodeToString(sum[:])
	}
	r.put("/blobs/sha256-"+sri, slashed).wantStatus(http.StatusCreated)
	r.get("/blob/sha256-" + url.PathEscape(sri)).wantStatus(http.StatusOK)
	r.get("/blob/sha256-" + sri).wantStatus(http.StatusOK)

	castaway := r.put("/blob", "new")
	castaway.wantStatus(http.StatusCreated)
	if want := strings.TrimPrefix(addressOf("new"), "sha256:"); castaway.body != want || !strings.HasPrefix(castaway.header.Get("Content-Type"), "text/plain") {
		t.Errorf("PUT /blob: %q, want %q", castaway.body, want)
	}
	r.put("/blob", "new").wantStatus(http.StatusOK)
	r.put("/blobs", "").wantStatus(http.StatusCreated)
	a := r.get("/blobs/" + addressOf(""))
	testkit.Holds(t, a.status == http.StatusOK && a.body == "", "the empty blob", a.status, a.body)

	for _, path := range []string{"/blobs/guest.wasm", "/blobs/sha256:00", "/blobs/sha256-abc", "/blobs/sha256-ab/cd", "/blob/" + digits + "0"} {
		a := r.get(path)
		testkit.Holds(t, a.status == http.StatusBadRequest || a.status == http.StatusNotFound, path, a.status, a.body)
	}
	r.get("/blobs/guest.wasm").refused(http.StatusBadRequest, "bad_address")
	r.put("/blobs/guest.wasm", "x").refused(http.StatusBadRequest, "bad_address")
	r.get("/blobs?client=queues").refused(http.StatusBadRequest, "bad_request")
	r.put("/blobs", "x", "Content-Encoding", "gzip").refused(http.StatusUnsupportedMediaType, web.CodeUnsupported)
}

func TestBlobRanges(t *testing.T) {
	r := start(t)
	content := strings.Repeat("0123456789", 100)
	r.put("/blobs", content).wantStatus(http.StatusCreated)
	path := "/blobs/" + addressOf(content)
	for _, c := range []struct {
		header, value string
		status        int
		body          string
	}{
		{"Range", "bytes=0-0", http.StatusPartialContent, "0"},
		{"Range", "bytes=995-", http.StatusPartialContent, "56789"},
		{"Range", "bytes=-3", http.StatusPartialContent, "789"},
		{"Range", "bytes=0-1,5-6", http.StatusPartialContent, "multipart"},
		{"Range", "bytes=1000-", http.StatusRequestedRangeNotSatisfiable, "bad_range"},
		{"Range", "bytes=x", http.StatusRequestedRangeNotSatisfiable, "bad_range"},
		{"If-None-Match", `"` + addressOf(content) + `"`, http.StatusNotModified, ""},
		{"If-None-Match", `"other"`, http.StatusOK, content},
	} {
		a := r.do(http.MethodGet, path, nil, c.header, c.value)
		testkit.Holds(t, a.status == c.status && (c.body == "multipart" || c.body == "bad_range" || a.body == c.body),
			c.header, c.value, a.status, a.body, "want", c.status, c.body)
		if c.body == "bad_range" {
			a.refused(c.status, c.body)
		}
	}
	a := r.do(http.MethodGet, path, nil, "Range", "bytes=0-9", "If-Range", `"other"`)
	testkit.Holds(t, a.status == http.StatusOK && a.body == content, "If-Range of another version", a.status, len(a.body), "bytes")
}

// TestVerifyingBlob: a range of a long blob that is not verified yet gets a status after which clients try again.
func TestVerifyingBlob(t *testing.T) {
	r := start(t)
	r.put("/blobs", "x").wantStatus(http.StatusCreated)
	r.blobs.fail(blob.ErrVerifying) // as Verify does after 10 seconds
	a := r.do(http.MethodGet, "/blobs/"+addressOf("x"), nil, "Range", "bytes=0-0")
	a.refused(http.StatusServiceUnavailable, "blob_verifying")
	testkit.Equal(t, a.header.Get("Retry-After"), "1", a.header)
	r.blobs.fail(nil)
	r.do(http.MethodGet, "/blobs/"+addressOf("x"), nil, "Range", "bytes=0-0").wantStatus(http.StatusPartialContent)
}

// TestManyOpenFiles: a server whose blobs have too many open files refuses with the right status.
func TestManyOpenFiles(t *testing.T) {
	r := start(t, func(o *setup) { o.blobOptions = blob.Options{MaxFiles: blob.MinFiles} })
	r.put("/blobs", "x").wantStatus(http.StatusCreated)
	path := r.begin(1)
	s := testkit.Must(r.blobs.Store())(t)
	x, err := blob.Parse(addressOf("x"))
	testkit.NoError(t, err)
	var held []*blob.Blob
	for err == nil {
		var b *blob.Blob
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if b, err = s.Get(ctx, "", *x.SHA256); err == nil {
			held = append(held, b)
		}
		cancel()
	}
	testkit.MustHold(t, len(held) >= 10, len(held), "are open", err)
	var all sync.WaitGroup // each waits for 5 seconds
	for _, ask := range []func(){
		func() { r.get("/blobs/"+addressOf("x")).refused(http.StatusServiceUnavailable, web.CodeOverloaded) },
		func() { r.put("/blobs", "y").refused(http.StatusTooManyRequests, web.CodeOverloaded) },
		func() { r.append(path, 0, "x").refused(http.StatusTooManyRequests, web.CodeOverloaded) },
		func() {
			r.do(http.MethodPost, "/uploads", nil, "Upload-Length", "1").refused(http.StatusTooManyRequests, web.CodeOverloaded)
		},
	} {
		all.Go(ask)
	}
	all.Wait()
	for _, b := range held {
		testkit.Check(t, b.Close())
	}
	got := r.get("/blobs/" + addressOf("x"))
	testkit.Equal(t, got.body, "x", got.status)
	r.append(path, 0, "x").wantStatus(http.StatusNoContent)
}

// TestDamagedBlob: a blob with a flipped byte is refused on read, and repaired by the next PUT.
func TestDamagedBlob(t *testing.T) {
	r := start(t)
	short, long := strings.Repeat("s", 1000), strings.Repeat("l", files.VerifiedFirst+1)
	for _, content := range []string{short, long} {
		r.put("/blobs", content).wantStatus(http.StatusCreated)
		address := addressOf(content)
		file := filepath.Join(r.blobs.dir, "blobs", "sha256", strings.TrimPrefix(address, "sha256:"))
		text := testkit.Must(os.ReadFile(file))(t)
		text[len(text)-1] ^= 1
		testkit.NoError(t, os.WriteFile(file, text, 0o600))
		r.do(http.MethodGet, "/blobs/"+address, nil, "Range", "bytes=0-0").refused(http.StatusInternalServerError, "blob_damaged")
		if len(content) <= files.VerifiedFirst {
			a := r.get("/blobs/" + address)
			a.refused(http.StatusInternalServerError, "blob_damaged")
			testkit.Holds(t, !strings.Contains(a.body, r.blobs.dir) &&
				strings.Contains(a.body, address), "the refusal must name the blob, and not its file", a.body)
		} else {
			resp := testkit.Must(http.Get(r.url + "/blobs/" + address))(t)
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			testkit.Holds(t, err != nil && len(got) < len(content), "read", len(got), "of", len(content), "bytes of a damaged blob", err)
		}
		r.put("/blobs", content).wantStatus(http.StatusOK)
		a := r.get("/blobs/" + address)
		testkit.Holds(t, a.status == http.StatusOK && a.body == content, "after the repair", a.status, len(a.body), "bytes")
	}
	testkit.Contains(t, r.get("/metrics").body, "\ndaybook_blobs_damaged_total 4\n")
}

// TestBlobLimits: each limit ends an upload, and an ended upload leaves no bytes.
func TestBlobLimits(t *testing.T) {
	r := start(t, func(o *setup) { o.blobOptions = blob.Options{MaxBytes: 1 << 20, QuotaBytes: 3 << 19} })
	mib := strings.Repeat("x", 1<<20)
	r.put("/blobs", mib+"x").refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
	r.do(http.MethodPut, "/blobs", chunked(mib+"x")).refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
	r.do(http.MethodPut, "/blobs", chunked(mib)).wantStatus(http.StatusCreated)
	r.put("/blobs", mib[1:]).refused(http.StatusInsufficientStorage, "blob_quota")
	r.put("/blobs/"+addressOf(mib), mib).wantStatus(http.StatusOK)
	uploads := func() []os.DirEntry { return testkit.Must(os.ReadDir(filepath.Join(r.blobs.dir, "uploads")))(t) }
	for _, end := range []func(net.Conn) error{
		func(c net.Conn) error { return c.Close() },
		func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() },
	} {
		c := testkit.Must(net.Dial("tcp", strings.TrimPrefix(r.url, "http://")))(t)
		testkit.Must(fmt.Fprintf(c, "PUT /blobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400000\r\n\r\n%s", mib[:300000]))(t)
		r.until("the upload has begun", func() bool { return len(uploads()) == 1 })
		testkit.NoError(t, end(c))
		r.until("the upload that was cut off is gone", func() bool { return len(uploads()) == 0 && r.blobs.Used() == 1<<20 })
		_ = c.Close()
	}
	list := r.get("/blobs").object(http.StatusOK)
	testkit.Holds(t, len(list["blobs"].([]any)) == 1 && fmt.Sprint(list["bytes"]) == "1048576", "list", list)
}

func TestListAndMissingBlobs(t *testing.T) {
	r := start(t)
	var all []string
	for i := range 7 {
		all = append(all, r.put("/blobs", strconv.Itoa(i)).object(http.StatusCreated)["address"].(string))
	}
	slices.Sort(all)
	var listed []string
	for after := ""; ; {
		page := r.get("/blobs?limit=3" + after).object(http.StatusOK)
		for _, b := range page["blobs"].([]any) {
			listed = append(listed, b.(map[string]any)["address"].(string))
		}
		if page["next"] == nil {
			break
		}
		after = "&after=" + page["next"].(string)
	}
	testkit.EqualSlices(t, listed, all, "listed")
	for _, query := range []string{"?limit=0", "?after=x", "?after=" + strings.Repeat("a", 40), "?limit=1001"} {
		r.get("/blobs" + query).wantStatus(http.StatusBadRequest)
	}
	x := sha1.Sum([]byte("0"))
	unknown := strings.Repeat("0", 40)
	upper := strings.ToUpper(strings.TrimPrefix(addressOf("none"), "sha256:"))
	a := r.post("/blobs/missing", fmt.Sprintf(`{"addresses":[%q,%q,%q,%q]}`, all[0], upper, unknown, hex.EncodeToString(x[:])))
	got := a.object(http.StatusOK)["missing"].([]any)
	testkit.Holds(t, len(got) == 2 && got[0] == upper && got[1] == unknown, "missing", got)
	testkit.NoError(t, os.WriteFile(filepath.Join(r.blobs.dir, "sha1", hex.EncodeToString(x[:])), []byte("damaged"), 0o600))
	r.post("/blobs/missing", `{"addresses":["`+hex.EncodeToString(x[:])+`"]}`).refused(http.StatusInternalServerError, "blob_damaged")
	r.post("/blobs/missing", `{"addresses":[]}`).refused(http.StatusBadRequest, web.CodeBadRequest)
	r.post("/blobs/missing", `{"addresses":["sha256:1"]}`).refused(http.StatusBadRequest, "bad_address")
	r.post("/blobs/missing", `{"addresses":["`+strings.Repeat(unknown+`","`, files.MaxAddresses)+unknown+`"]}`).refused(http.StatusBadRequest, web.CodeBadRequest)
}

// TestCollectBlobs: blobs that a job, an output or a handler names are kept, and unnamed blobs are removed.
func TestCollectBlobs(t *testing.T) {
	r := start(t)
	for _, content := range []string{"binary", "input", "payload", "output", "inline", "handler", "error", "dead"} {
		r.put("/blobs", content).wantStatus(http.StatusCreated)
	}
	input := sha256Of("input")
	r.make(fmt.Sprintf(`{"type":"wasi","binary_addr":%q,"input_addr":"sha256-%s"}`, addressOf("binary"), base64.StdEncoding.EncodeToString(input[:])))
	r.make(fmt.Sprintf(`{"payload":{"file":%q}}`, addressOf("payload")))
	id := r.make(`{"type":"done"}`)
	r.claimed("done")
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"code":"ok","output_addr":%q,"output":{"see":%q}}`, addressOf("output"), addressOf("inline"))).object(http.StatusOK)
	failed := r.make(`{"type":"bad"}`)
	r.claimed("bad")
	r.post("/jobs/"+failed+"/complete", fmt.Sprintf(`{"code":"failed","error":%q}`, "see "+addressOf("error"))).object(http.StatusOK)
	r.do(http.MethodPut, "/handlers/h", strings.NewReader(fmt.Sprintf(`{"kind":"script","lang":"sh","source":%q}`, "# "+addressOf("handler"))), "Content-Type", web.MIMEJSON).wantStatus(http.StatusCreated)

	got := r.post("/blobs/collect", "").object(http.StatusOK)
	testkit.Equal(t, fmt.Sprint(got["blobs"]), "0", "collected young blobs:", got)
	r.blobs.wait(25 * time.Hour)
	r.put("/blobs", "young").wantStatus(http.StatusCreated)
	got = r.post("/blobs/collect", "").object(http.StatusOK)
	testkit.Equal(t, fmt.Sprint(got["blobs"], " ", got["bytes"]), "1 4", "collected", got)
	for _, content := range []string{"binary", "input", "payload", "output", "inline", "handler", "error", "young"} {
		testkit.Equal(t, r.get("/blobs/"+addressOf(content)).status, http.StatusOK, content)
	}
	r.get("/blobs/"+addressOf("dead")).refused(http.StatusNotFound, "blob_not_found")

	r.do(http.MethodDelete, "/jobs/"+id, nil).wantStatus(http.StatusNoContent)
	r.blobs.wait(25 * time.Hour)
	got = r.post("/blobs/collect", "").object(http.StatusOK)
	testkit.Equal(t, fmt.Sprint(got["blobs"]), "3", "collected", got) // output, inline, young
}

// TestManyBlobStreams: uploads that together need more memory than there is wait for each other, and none fails.
func TestManyBlobStreams(t *testing.T) {
	r := start(t)
	var all sync.WaitGroup
	for range 2 * r.server.streamed.Total() / web.StreamBytes {
		all.Go(func() {
			content := make([]byte, 100_000)
			rand.Read(content)
			a := r.do(http.MethodPut, "/blobs", bytes.NewReader(content))
			a.wantStatus(http.StatusCreated)
			got := r.get("/blobs/" + addressOf(string(content)))
			testkit.Holds(t, got.body == string(content), "got", len(got.body), "bytes", got.status)
		})
	}
	all.Wait()
	r.until("no bytes are held", func() bool { return r.server.streamed.Used()+r.server.downloads.Used() == 0 })
}

// statusesOfBlobs makes requests that get the statuses of the routes of blobs.
func (r *rig) statusesOfBlobs(operations []tried, do func(o *tried, path, body string, headers ...string) reply) {
	r.Helper()
	for i := range operations {
		o := &operations[i]
		if !o.ofBlobs() {
			continue
		}
		r.blobs.fail(errors.New("broken"))
		if o.route.path != "/blobs/collect" && o.method != http.MethodOptions {
			do(o, o.path, o.body).wantStatus(http.StatusInternalServerError)
		}
		r.blobs.fail(fmt.Errorf("%w: secret details", blob.ErrUnavailable))
		if o.route.path != "/blobs/collect" && o.method != http.MethodOptions {
			a := do(o, o.path, o.body)
			a.refused(http.StatusServiceUnavailable, "blobs_unavailable")
			testkit.Holds(r, !strings.Contains(a.body, "secret"), o.method, o.path, "the answer has the cause")
		}
		r.blobs.fail(blob.ErrNoSpace)
		if o.streams() {
			do(o, o.path, o.body).refused(http.StatusInsufficientStorage, "disk_full")
		}
		r.blobs.fail(nil)
		storage := r.server.blobs.Storage
		r.server.blobs.Storage = nil
		if o.method != http.MethodOptions {
			do(o, o.path, o.body).refused(http.StatusNotImplemented, "no_blobs")
		}
		r.server.blobs.Storage = storage
		if strings.HasPrefix(o.route.path, "/uploads") {
			r.statusesOfUploads(o, do)
		}
		switch o.name() {
		case "POST /blobs/collect":
			release := r.blobs.hold()
			do(o, o.path, o.body).refused(http.StatusConflict, "collecting_blobs")
			release()
		case "PUT /blobs", "PUT /blob":
			do(o, o.path, fmt.Sprint("new", i)).wantStatus(http.StatusCreated)
			do(o, o.path, fmt.Sprint("new", i)).wantStatus(http.StatusOK)
		case "PUT /blobs/{address}":
			do(o, "/blobs/"+addressOf("at"), "at").wantStatus(http.StatusCreated)
			do(o, "/blobs/"+addressOf("at"), "at").wantStatus(http.StatusOK)
			do(o, o.path, "other").refused(http.StatusUnprocessableEntity, "wrong_digest")
		case "GET /blobs/{address}", "GET /blob/{address}":
			r.put("/blobs", "{}")
			do(o, o.path, "", "Range", "bytes=0-0").wantStatus(http.StatusPartialContent)
			do(o, o.path, "", "Range", "bytes=9-").refused(http.StatusRequestedRangeNotSatisfiable, "bad_range")
		}
	}
}

// hold begins a collection that runs until release is called.
func (b *testBlobs) hold() (release func()) {
	b.wait(25 * time.Hour) // so that there is something to collect
	begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	scan := b.Collector.Scan
	b.Collector.Scan = func(context.Context, *blob.Store, func([]byte) error) error {
		close(begun)
		<-goOn
		return errors.New("held")
	}
	go func() {
		defer close(ended)
		_, _ = b.Collector.Collect(context.Background()) // the scan fails
	}()
	<-begun
	return func() {
		close(goOn)
		<-ended
		b.Collector.Scan = scan
	}
}
