package runner

import (
	"io"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/encryption"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestEncryptedRuns: handlers get payloads in plain text; the server has outputs and errors only in encrypted form, also outputs
// that are blobs.
func TestEncryptedRuns(t *testing.T) {
	r := start(t)
	plain := r.Client
	r.Client = client.New(r.server.URL, client.Options{Codec: testkit.Must(encryption.Parse([]byte(encryption.NewKey())))(t)})
	short := r.create(client.NewJob{Type: "short", Payload: []byte("secret")})
	long := r.create(client.NewJob{Type: "long", Payload: []byte("secret")})
	bad := r.create(client.NewJob{Type: "bad", Payload: []byte("secret"), Attributes: client.Attributes{MaxAttempts: 1}})
	r.run(r.settings(map[string]string{"short": "cat", "long": "cat; head -c 300000 /dev/zero | tr '\\0' x", "bad": "cat >&2; exit 1"}))
	for id, want := range map[string]string{short.ID: "secret", long.ID: "secret" + strings.Repeat("x", 300_000)} {
		o := testkit.Must(r.Output(t.Context(), id, 0))(t)
		testkit.Holds(t, string(o.Bytes) == want && o.Kind == client.Text, id, o.Kind, len(o.Bytes))
		raw := testkit.Must(plain.Output(t.Context(), id, 0))(t)
		testkit.Holds(t, strings.HasPrefix(string(raw.Bytes), "dbe1.o."), id, len(raw.Bytes))
	}
	testkit.Contains(t, testkit.Must(r.Job(t.Context(), bad.ID))(t).Error, "secret")
	testkit.Lacks(t, testkit.Must(plain.Job(t.Context(), bad.ID))(t).Error, "secret")
	testkit.Holds(t, testkit.Must(plain.Job(t.Context(), long.ID))(t).OutputAddr != "", "the long output is no blob")
}

// TestEncodedOutputs: outputs that guests write to files are encrypted when they are stored, and are refused beyond a limit.
func TestEncodedOutputs(t *testing.T) {
	r := start(t)
	codec := testkit.Must(encryption.Parse([]byte(encryption.NewKey())))(t)
	to := outputBlobs{blobs{client.New(r.server.URL, client.Options{Codec: codec})}}
	address := testkit.Must(to.Put(t.Context(), "acme", strings.NewReader("secret")))(t)
	in := testkit.Must(to.Get(t.Context(), "acme", address))(t)
	text := testkit.Must(io.ReadAll(in))(t)
	testkit.NoError(t, in.Close())
	got := testkit.Must(codec.Decode(client.PartOutput, text))(t)
	testkit.Holds(t, string(got.Data) == "secret" && got.Kind == client.Text, got)
	testkit.Fails(to.Put(t.Context(), "acme", io.LimitReader(zeros{}, maxEncodedOutput+1)))(t, client.ErrTooLarge)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
