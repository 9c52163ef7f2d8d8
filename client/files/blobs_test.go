package files_test

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
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

func addressOf(content string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content)))
}

func readBlob(c *client.Client, address string) (string, error) {
	b, err := c.Blobs("").Open(context.Background(), address)
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
		b, err := c.Blobs("").Put(ctx, r)
		if err != nil || b.Address != addressOf(content) || b.Size != int64(len(content)) || b.SHA1 != fmt.Sprintf("%x", sha1.Sum([]byte(content))) {
			t.Errorf("%s: %+v, %v", name, b, err)
			continue
		}
		sum := sha256.Sum256([]byte(content))
		for _, form := range []string{b.Address, hex.EncodeToString(sum[:]), "sha256-" + base64.StdEncoding.EncodeToString(sum[:]), b.SHA1} {
			got := testkit.Must(readBlob(c, form))(t)
			testkit.Holds(t, got == content, name, "as", form, len(got), "bytes")
			info := testkit.Must(c.Blobs("").Stat(ctx, form))(t)
			testkit.Holds(t, info.Address == b.Address && info.Size == b.Size, name, "as", form, info)
		}
	}
	b := testkit.Must(c.Blobs("").Put(ctx, strings.NewReader("WILSON!")))(t)
	testkit.Holds(t, b.Existed, "again", b)
	rest := strings.NewReader("not this: this")
	testkit.Must(rest.Seek(10, io.SeekStart))(t)
	b = testkit.Must(c.Blobs("").Put(ctx, rest))(t)
	testkit.Holds(t, b.Address == addressOf("this"), "the rest of a reader", b)

	none := addressOf("none")
	_, getErr := c.Blobs("").Open(ctx, none)
	_, statErr := c.Blobs("").Stat(ctx, none)
	testkit.Holds(t, errors.Is(getErr, problem.ErrNotFound) && errors.Is(statErr, problem.ErrNotFound), "no blob", getErr, statErr)
	_, getErr = c.Blobs("").Open(ctx, "guest.wasm")
	_, statErr = c.Blobs("").Stat(ctx, "guest.wasm")
	testkit.Holds(t, errors.Is(getErr, problem.ErrBadRequest) && errors.Is(statErr, problem.ErrBadRequest), "no address", getErr, statErr)
	missing := testkit.Must(c.Blobs("").Missing(ctx, append(slices.Repeat([]string{addressOf("this")}, 10_000), none)))(t)
	testkit.EqualSlices(t, missing, []string{none}, "missing")
	listed := map[string]bool{}
	for b, err := range c.Blobs("").All(ctx) {
		testkit.NoError(t, err)
		listed[b.Address] = true
	}
	testkit.Holds(t, len(listed) == 4 && listed[addressOf("this")], "listed", listed)
	done := testkit.Must(c.CollectBlobs(ctx))(t)
	testkit.Equal(t, done.Blobs, 0, "collected", done)
}

// blobReply answers with a part of a blob.
func blobReply(content string, from, to int) clienttest.Reply {
	status := http.StatusOK
	if from > 0 {
		status = http.StatusPartialContent
	}
	return clienttest.Reply{Status: status, Stream: io.NopCloser(io.MultiReader(strings.NewReader(content[from:to]), iotest.ErrReader(io.ErrUnexpectedEOF))),
		Header: http.Header{"Etag": {`"` + addressOf(content) + `"`}, "Content-Length": {fmt.Sprint(len(content) - from)}}}
}

func TestBlobIsReadOn(t *testing.T) {
	const content = "0123456789"
	f := clienttest.InTurn(blobReply(content, 0, 4), clienttest.Reply{Status: 503}, blobReply(content, 4, 7), clienttest.LostAnswer, blobReply(content, 7, 10))
	testkit.Equal(t, testkit.Must(readBlob(f.Client(client.Options{}), addressOf(content)))(t), content)
	var ranges []string
	for _, c := range f.All() {
		ranges = append(ranges, c.Header.Get("Range"))
	}
	testkit.EqualSlices(t, ranges, []string{"", "bytes=4-", "bytes=4-", "bytes=7-", "bytes=7-"}, "ranges")
}

// TestBlobIsVerifiedAtTheServer: while the server verifies a long blob, the client repeats its request, for longer than
// RetryFor.
func TestBlobIsVerifiedAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const content = "0123456789"
		began := time.Now()
		f := &clienttest.Fake{Answer: func(c clienttest.Call) clienttest.Reply {
			switch {
			case c.Header.Get("Range") == "":
				return blobReply(content, 0, 4)
			case time.Since(began) < 20*time.Minute:
				return clienttest.Problem(503, "blob_verifying", "not_stored")
			}
			return blobReply(content, 4, 10)
		}}
		got, err := readBlob(f.Client(client.Options{}), addressOf(content))
		testkit.Holds(t, err == nil && got == content, got, err, "after", time.Since(began))
	})
}

func TestBlobIsVerified(t *testing.T) {
	const content = "0123456789"
	flipped := blobReply(content, 0, 10)
	flipped.Stream = io.NopCloser(strings.NewReader("0123456780"))
	for name, c := range map[string]struct {
		f       *clienttest.Fake
		address string
		want    error
	}{
		"flipped byte":                {clienttest.InTurn(flipped), addressOf(content), problem.ErrBlobDamaged},
		"another blob":                {clienttest.InTurn(blobReply("other", 0, 5)), addressOf(content), problem.ErrBlobDamaged},
		"another blob of a SHA-1":     {clienttest.InTurn(blobReply("other", 0, 5)), fmt.Sprintf("%x", sha1.Sum([]byte(content))), problem.ErrBlobDamaged},
		"damage that the server sees": {clienttest.InTurn(blobReply(content, 0, 4), clienttest.Problem(500, "blob_damaged", "not_stored")), addressOf(content), problem.ErrBlobDamaged},
		"another blob on the way":     {clienttest.InTurn(blobReply(content, 0, 4), blobReply("9876543210", 4, 10)), addressOf(content), problem.ErrUnexpectedAnswer},
		"all of it on the way":        {clienttest.InTurn(blobReply(content, 0, 4), blobReply(content, 0, 10)), addressOf(content), problem.ErrUnexpectedAnswer},
		"removed on the way":          {clienttest.InTurn(blobReply(content, 0, 4), clienttest.Problem(404, "blob_not_found", "not_stored")), addressOf(content), problem.ErrNotFound},
		"no address":                  {clienttest.InTurn(clienttest.Reply{Status: 200, Body: "login page"}), addressOf(content), problem.ErrUnexpectedAnswer},
		"nothing, again and again": {&clienttest.Fake{Answer: func(c clienttest.Call) clienttest.Reply { // as a proxy that breaks each connection
			if c.Header.Get("Range") == "" {
				return blobReply(content, 0, 4)
			}
			return blobReply(content, 4, 4)
		}}, addressOf(content), problem.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readBlob(c.f.Client(client.Options{}), c.address)
			testkit.Holds(t, errors.Is(err, c.want), got, err, "want", c.want)
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
		for name, value := range answer.Header {
			w.Header()[name] = value
		}
		w.WriteHeader(answer.Status)
		if from > 0 {
			_, _ = io.WriteString(w, content[4:]) // the client reports how much it got
			return
		}
		_, _ = io.WriteString(w, content[:4])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	testkit.Equal(t, testkit.Must(readBlob(client.New(s.URL, client.Options{Timeout: 200 * time.Millisecond}), addressOf(content)))(t), content)
}

func TestPutBlobIsRepeated(t *testing.T) {
	const content = "0123456789"
	right := clienttest.Reply{Status: 201, Body: `{"address":"` + addressOf(content) + `","size":10}`}
	for name, c := range map[string]struct {
		r     io.Reader
		first clienttest.Reply
		calls int
		want  error
	}{
		"lost answer":              {strings.NewReader(content), clienttest.LostAnswer, 2, nil},
		"503":                      {strings.NewReader(content), clienttest.Reply{Status: 503}, 2, nil},
		"a stream, lost answer":    {iotest.OneByteReader(strings.NewReader(content)), clienttest.LostAnswer, 1, problem.ErrUnknown},
		"a stream, not connected":  {iotest.OneByteReader(strings.NewReader(content)), clienttest.RefusedConnection, 1, problem.ErrUnavailable},
		"quota":                    {strings.NewReader(content), clienttest.Problem(507, "blob_quota", "not_stored"), 1, problem.ErrOverloaded},
		"another blob was stored":  {strings.NewReader(content), clienttest.Reply{Status: 201, Body: `{"address":"` + addressOf("x") + `","size":1}`}, 1, problem.ErrUnexpectedAnswer},
		"a reader that fails":      {io.MultiReader(strings.NewReader("0"), iotest.ErrReader(os.ErrPermission)), right, 0, os.ErrPermission},
		"the server has no blobs":  {strings.NewReader(content), clienttest.Problem(501, "no_blobs", "not_stored"), 1, problem.ErrNoBlobs},
		"the answer is not a blob": {strings.NewReader(content), clienttest.Reply{Status: 200, Body: "<html>"}, 1, problem.ErrUnexpectedAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			f := clienttest.InTurn(c.first, right)
			b, err := f.Client(client.Options{}).Blobs("acme").Put(t.Context(), c.r)
			testkit.Holds(t, errors.Is(err, c.want) && (err != nil || b.Address == addressOf(content)) &&
				len(f.All()) == c.calls, b, err, "after", len(f.All()), "requests; want", c.want, "after", c.calls)
			for _, call := range f.All() {
				testkit.Holds(t, bytes.Equal(call.Text, []byte(content)) &&
					call.Query.Get("client") == "acme", "sent", call.Text, "to", call.Query)
			}
		})
	}
}
