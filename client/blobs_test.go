package client_test

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
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
)

func addressOf(content string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content)))
}

func readBlob(c *client.Client, address string) (string, error) {
	b, err := c.GetBlob(context.Background(), "", address)
	if err != nil {
		return "", err
	}
	defer b.Close()
	got, err := io.ReadAll(b)
	if err == nil && b.Size != int64(len(got)) {
		err = fmt.Errorf("size %d of %d bytes", b.Size, len(got))
	}
	return string(got), err
}

func TestBlobs(t *testing.T) {
	s := daybooktest.Start(t)
	c, ctx := client.New(s.URL, client.Options{}), t.Context()
	long := make([]byte, 5<<20)
	rand.Read(long)
	file := filepath.Join(t.TempDir(), "guest.wasm")
	testkit.NoError(t, os.WriteFile(file, long, 0o600))
	f := testkit.Must(os.Open(file))(t)
	defer f.Close()
	for name, r := range map[string]io.Reader{"a file": f, "a stream": iotest.OneByteReader(strings.NewReader("WILSON!")), "nothing": strings.NewReader(""), "an empty stream": iotest.DataErrReader(strings.NewReader(""))} {
		content := "WILSON!"
		switch name {
		case "a file":
			content = string(long)
		case "nothing", "an empty stream":
			content = ""
		}
		b, err := c.PutBlob(ctx, "", r)
		if err != nil || b.Address != addressOf(content) || b.Size != int64(len(content)) || b.SHA1 != fmt.Sprintf("%x", sha1.Sum([]byte(content))) {
			t.Errorf("%s: %+v, %v", name, b, err)
			continue
		}
		sum := sha256.Sum256([]byte(content))
		for _, form := range []string{b.Address, hex.EncodeToString(sum[:]), "sha256-" + base64.StdEncoding.EncodeToString(sum[:]), b.SHA1} {
			if got, err := readBlob(c, form); err != nil || got != content {
				t.Errorf("%s as %s: %d bytes, %v", name, form, len(got), err)
			}
			if info, err := c.StatBlob(ctx, "", form); err != nil || info.Address != b.Address || info.Size != b.Size {
				t.Errorf("%s as %s: %+v, %v", name, form, info, err)
			}
		}
	}
	if b, err := c.PutBlob(ctx, "", strings.NewReader("WILSON!")); err != nil || !b.Existed {
		t.Errorf("again: %+v, %v", b, err)
	}
	rest := strings.NewReader("not this: this")
	testkit.Must(rest.Seek(10, io.SeekStart))(t)
	if b, err := c.PutBlob(ctx, "", rest); err != nil || b.Address != addressOf("this") {
		t.Errorf("the rest of a reader: %+v, %v", b, err)
	}

	none := addressOf("none")
	_, getErr := c.GetBlob(ctx, "", none)
	_, statErr := c.StatBlob(ctx, "", none)
	if !errors.Is(getErr, client.ErrNotFound) || !errors.Is(statErr, client.ErrNotFound) {
		t.Errorf("no blob: %v, %v", getErr, statErr)
	}
	_, getErr = c.GetBlob(ctx, "", "guest.wasm")
	_, statErr = c.StatBlob(ctx, "", "guest.wasm")
	if !errors.Is(getErr, client.ErrBadRequest) || !errors.Is(statErr, client.ErrBadRequest) {
		t.Errorf("no address: %v, %v", getErr, statErr)
	}
	missing, err := c.MissingBlobs(ctx, "", append(slices.Repeat([]string{addressOf("this")}, 10_000), none))
	if err != nil || !slices.Equal(missing, []string{none}) {
		t.Errorf("missing %v, %v", missing, err)
	}
	listed := map[string]bool{}
	for b, err := range c.Blobs(ctx, "") {
		testkit.NoError(t, err)
		listed[b.Address] = true
	}
	if len(listed) != 4 || !listed[addressOf("this")] {
		t.Errorf("listed %v", listed)
	}
	if done, err := c.CollectBlobs(ctx); err != nil || done.Blobs != 0 {
		t.Errorf("collected %+v, %v", done, err)
	}
}

// blobReply answers with a part of a blob.
func blobReply(content string, from, to int) reply {
	status := http.StatusOK
	if from > 0 {
		status = http.StatusPartialContent
	}
	return reply{status: status, stream: io.NopCloser(io.MultiReader(strings.NewReader(content[from:to]), iotest.ErrReader(io.ErrUnexpectedEOF))),
		header: http.Header{"Etag": {`"` + addressOf(content) + `"`}, "Content-Length": {fmt.Sprint(len(content) - from)}}}
}

func TestBlobIsReadOn(t *testing.T) {
	const content = "0123456789"
	f := inTurn(blobReply(content, 0, 4), reply{status: 503}, blobReply(content, 4, 7), lostAnswer, blobReply(content, 7, 10))
	if got, err := readBlob(f.client(client.Options{}), addressOf(content)); err != nil || got != content {
		t.Errorf("%q, %v", got, err)
	}
	var ranges []string
	for _, c := range f.all() {
		ranges = append(ranges, c.header.Get("Range"))
	}
	if want := []string{"", "bytes=4-", "bytes=4-", "bytes=7-", "bytes=7-"}; !slices.Equal(ranges, want) {
		t.Errorf("ranges %q, want %q", ranges, want)
	}
}

// TestBlobIsVerifiedAtTheServer: while the server verifies a long blob, the client repeats its request, for longer than
// RetryFor.
func TestBlobIsVerifiedAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const content = "0123456789"
		began := time.Now()
		f := &fake{answer: func(c call) reply {
			switch {
			case c.header.Get("Range") == "":
				return blobReply(content, 0, 4)
			case time.Since(began) < 20*time.Minute:
				return problem(503, "blob_verifying", "not_stored")
			}
			return blobReply(content, 4, 10)
		}}
		if got, err := readBlob(f.client(client.Options{}), addressOf(content)); err != nil || got != content {
			t.Errorf("%q, %v after %v", got, err, time.Since(began))
		}
	})
}

func TestBlobIsVerified(t *testing.T) {
	const content = "0123456789"
	flipped := blobReply(content, 0, 10)
	flipped.stream = io.NopCloser(strings.NewReader("0123456780"))
	for name, c := range map[string]struct {
		f       *fake
		address string
		want    error
	}{
		"flipped byte":                {inTurn(flipped), addressOf(content), client.ErrBlobDamaged},
		"another blob":                {inTurn(blobReply("other", 0, 5)), addressOf(content), client.ErrBlobDamaged},
		"another blob of a SHA-1":     {inTurn(blobReply("other", 0, 5)), fmt.Sprintf("%x", sha1.Sum([]byte(content))), client.ErrBlobDamaged},
		"damage that the server sees": {inTurn(blobReply(content, 0, 4), problem(500, "blob_damaged", "not_stored")), addressOf(content), client.ErrBlobDamaged},
		"another blob on the way":     {inTurn(blobReply(content, 0, 4), blobReply("9876543210", 4, 10)), addressOf(content), client.ErrUnexpectedAnswer},
		"all of it on the way":        {inTurn(blobReply(content, 0, 4), blobReply(content, 0, 10)), addressOf(content), client.ErrUnexpectedAnswer},
		"removed on the way":          {inTurn(blobReply(content, 0, 4), problem(404, "blob_not_found", "not_stored")), addressOf(content), client.ErrNotFound},
		"no address":                  {inTurn(reply{status: 200, body: "login page"}), addressOf(content), client.ErrUnexpectedAnswer},
		"nothing, again and again": {&fake{answer: func(c call) reply { // as a proxy that breaks each connection
			if c.header.Get("Range") == "" {
				return blobReply(content, 0, 4)
			}
			return blobReply(content, 4, 4)
		}}, addressOf(content), client.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := readBlob(c.f.client(client.Options{}), c.address); !errors.Is(err, c.want) {
				t.Errorf("%q, %v, want %v", got, err, c.want)
			}
		})
	}
}

// TestSilentBlob: a connection that delivers no more bytes is given up after Options.Timeout.
func TestSilentBlob(t *testing.T) {
	const content = "0123456789"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := 0
		if r.Header.Get("Range") != "" {
			from = 4
		}
		answer := blobReply(content, from, 10)
		for name, value := range answer.header {
			w.Header()[name] = value
		}
		w.WriteHeader(answer.status)
		if from > 0 {
			_, _ = io.WriteString(w, content[4:]) // the client reports how much it got
			return
		}
		_, _ = io.WriteString(w, content[:4])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	if got, err := readBlob(client.New(s.URL, client.Options{Timeout: 200 * time.Millisecond}), addressOf(content)); err != nil || got != content {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPutBlobIsRepeated(t *testing.T) {
	const content = "0123456789"
	right := reply{status: 201, body: `{"address":"` + addressOf(content) + `","size":10}`}
	for name, c := range map[string]struct {
		r     io.Reader
		first reply
		calls int
		want  error
	}{
		"lost answer":              {strings.NewReader(content), lostAnswer, 2, nil},
		"503":                      {strings.NewReader(content), reply{status: 503}, 2, nil},
		"a stream, lost answer":    {iotest.OneByteReader(strings.NewReader(content)), lostAnswer, 1, client.ErrUnknown},
		"a stream, not connected":  {iotest.OneByteReader(strings.NewReader(content)), refusedConnection, 1, client.ErrUnavailable},
		"quota":                    {strings.NewReader(content), problem(507, "blob_quota", "not_stored"), 1, client.ErrOverloaded},
		"another blob was stored":  {strings.NewReader(content), reply{status: 201, body: `{"address":"` + addressOf("x") + `","size":1}`}, 1, client.ErrUnexpectedAnswer},
		"a reader that fails":      {io.MultiReader(strings.NewReader("0"), iotest.ErrReader(os.ErrPermission)), right, 0, os.ErrPermission},
		"the server has no blobs":  {strings.NewReader(content), problem(501, "no_blobs", "not_stored"), 1, client.ErrNoBlobs},
		"the answer is not a blob": {strings.NewReader(content), reply{status: 200, body: "<html>"}, 1, client.ErrUnexpectedAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			f := inTurn(c.first, right)
			b, err := f.client(client.Options{}).PutBlob(t.Context(), "acme", c.r)
			if !errors.Is(err, c.want) || err == nil && b.Address != addressOf(content) || len(f.all()) != c.calls {
				t.Errorf("%+v, %v after %d requests; want %v after %d", b, err, len(f.all()), c.want, c.calls)
			}
			for _, call := range f.all() {
				if !bytes.Equal(call.text, []byte(content)) || call.query.Get("client") != "acme" {
					t.Errorf("sent %q to %v", call.text, call.query)
				}
			}
		})
	}
}
