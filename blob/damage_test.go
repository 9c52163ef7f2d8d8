package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestDamage: a blob with one flipped byte, cut short or grown is refused on every read, and the next Put repairs it.
func TestDamage(t *testing.T) {
	testkit.OneByOne(t)
	s := newStore(t, Options{})
	for _, size := range []int{1, 1000, bufferBytes, 2*bufferBytes + 7} {
		content := random(1, size)
		info := mustPut(t, s, content)
		mustRead(t, s, content) // it is in the list of verified blobs
		path := s.path(info.Address)
		flip := func(at int) func() error {
			return func() error {
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte{content[at] ^ 1}, int64(at))
				return errors.Join(err, f.Close())
			}
		}
		for name, damage := range map[string]func() error{
			"the first byte":  flip(0),
			"the last byte":   flip(size - 1),
			"one in between":  flip(size / 2),
			"shorter":         func() error { return os.Truncate(path, int64(size-1)) },
			"empty":           func() error { return os.Truncate(path, 0) },
			"longer":          func() error { return os.Truncate(path, int64(size+1)) },
			"another content": func() error { return os.WriteFile(path, []byte(wilson), 0o600) },
		} {
			testkit.NoError(t, damage())
			for range 2 {
				got, err := read(t, s, info.Address)
				testkit.Holds(t, err != nil, size, "bytes", name, len(got), "bytes were read")
				mustBeDamaged(t, err, path)
			}
			testkit.Holds(t, mustPut(t, s, content).Existed, size, "bytes", name, "it did not exist")
			mustRead(t, s, content)
			// A running store does not notice the lost bytes; the next one counts again.
			testkit.NoError(t, s.Close())
			s = mustOpen(t, s.dir, Options{})
			mustAddUp(t, s)
		}
	}
}

// TestDamageWhileOpen: a reader that has verified a blob notices that its file was changed.
func TestDamageWhileOpen(t *testing.T) {
	s := newStore(t, Options{})
	info := mustPut(t, s, wilson)
	b, err := s.Get(context.Background(), "", info.Address)
	testkit.NoError(t, err)
	defer b.Close()
	p := make([]byte, 3)
	testkit.Must(b.ReadAt(p, 2))(t)
	testkit.MustHold(t, string(p) == "LSO", string(p))
	// The size changes, because two changes within a tick of the file system's clock have the same time.
	testkit.NoError(t, os.WriteFile(s.path(info.Address), []byte("Wilson?!"), 0o600))
	_, err = b.ReadAt(p, 2)
	mustBeDamaged(t, err, s.path(info.Address))
}

func TestReader(t *testing.T) {
	s := newStore(t, Options{})
	content := random(2, 50_000) // TestReader reads it byte by byte
	info := mustPut(t, s, content)
	b := testkit.Must(s.Get(context.Background(), "", info.Address))(t)
	defer b.Close()
	testkit.Check(t, iotest.TestReader(b, []byte(content)))
	testkit.Must(b.Seek(10, io.SeekStart))(t)
	var rest bytes.Buffer
	n, err := io.Copy(&rest, b)
	testkit.Holds(t, n == int64(len(content)-10) && err == nil && rest.String() == content[10:], "the rest has", n, "bytes", err)
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestHTTP: a server that follows doc.go. The client of a damaged blob gets an error, whether it requests the whole
// blob or an intact range.
func TestHTTP(t *testing.T) {
	s := newStore(t, Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := addressOf(r.URL.Query().Get("content"))
		b, err := s.Get(r.Context(), "", a)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer b.Close()
		if r.Header.Get("Range") != "" {
			if err := b.Verify(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			http.ServeContent(w, r, "blob", time.Time{}, b)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(b.Info().Size, 10))
		if _, err := b.WriteTo(w); err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	content := strings.Repeat("x", 10_000)
	get := func(rang string) (int, string, error) {
		t.Helper()
		r := testkit.Must(http.NewRequest("GET", server.URL+"?content="+content, nil))(t)
		if rang != "" {
			r.Header.Set("Range", rang)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			return 0, "", err // the connection may end before the header
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body), err
	}
	info := mustPut(t, s, content)
	for rang, want := range map[string]string{"": content, "bytes=0-9": content[:10], "bytes=-5": content[:5], "bytes=9000-": content[9000:]} {
		_, body, err := get(rang)
		testkit.Holds(t, body == want && err == nil, "range", rang, "has", len(body), "bytes", err)
	}
	testkit.NoError(t, os.WriteFile(s.path(info.Address), []byte(content[1:]+"y"), 0o600))
	_, body, err := get("")
	testkit.Holds(t, err != nil, len(body), "bytes of a damaged blob were sent without an error")
	for _, rang := range []string{"bytes=0-9", "bytes=-5", "bytes=5-6"} {
		if status, body, err := get(rang); status != http.StatusInternalServerError || err != nil || !strings.Contains(body, "damaged") {
			t.Errorf("range %s of a damaged blob: %d, %q, %v", rang, status, body, err)
		}
	}
}
