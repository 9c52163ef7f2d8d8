package encryption_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/encryption"
	"github.com/daybookq/daybook/client/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/golden.txt again")

// golden is a key whose secret has the bytes 0 to 31.
const golden = "dbe_630dcd2966c43366_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func keys(t testing.TB, lines ...string) *encryption.Keys {
	t.Helper()
	return testkit.Must(encryption.Parse([]byte(strings.Join(lines, "\n"))))(t)
}

// contents are contents of all kinds.
func contents() []client.Content {
	return []client.Content{
		{Kind: client.Text, Data: []byte("a\nß")}, {Kind: client.Text, Data: []byte{}}, {Kind: client.JSON, Data: []byte(`{"a":1.50}`)},
		{Kind: client.Bytes, Data: []byte{0, 0xff}}, {Kind: client.Text, Data: bytes.Repeat([]byte("x"), 70_000)},
	}
}

// TestRoundTrip: each content is decrypted as it was, its text can be a line of UTF-8 and has the stated length, and two
// texts of one content differ.
func TestRoundTrip(t *testing.T) {
	k := keys(t, encryption.NewKey())
	for _, c := range contents() {
		for _, part := range []client.Part{client.PartPayload, client.PartOutput, client.PartError} {
			text := testkit.Must(k.Encode(part, c, ""))(t)
			testkit.Equal(t, len(text), k.EncodedLen(len(c.Data)), "length")
			testkit.Holds(t, len(text) == 24+(4*(len(c.Data)+29)+2)/3 && bytes.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0, len(text), len(c.Data))
			got := testkit.Must(k.Decode(part, text))(t)
			testkit.Holds(t, got.Kind == c.Kind && bytes.Equal(got.Data, c.Data), part, got.Kind, len(got.Data))
			again := testkit.Must(k.Encode(part, c, ""))(t)
			testkit.Holds(t, !bytes.Equal(again, text), "the nonce is not random")
		}
	}
	testkit.Fails(k.Encode(client.PartPayload, client.Content{Kind: client.WASI, Data: []byte("x")}, ""))(t)
	testkit.Fails(k.Encode("other", client.Content{Kind: client.Text}, ""))(t)
}

// TestRepeats: a repeated request has the same text; any other request, content or part has another nonce.
func TestRepeats(t *testing.T) {
	one := encryption.NewKey()
	k, c := keys(t, one), client.Content{Kind: client.Text, Data: []byte("x")}
	text := testkit.Must(k.Encode(client.PartOutput, c, "key a 1"))(t)
	testkit.Equal(t, string(testkit.Must(keys(t, one).Encode(client.PartOutput, c, "key a 1"))(t)), string(text))
	const nonce = 24 + 16 // where the text of the nonce ends
	for name, other := range map[string][]byte{
		"repeat":  testkit.Must(k.Encode(client.PartOutput, c, "key a 11"))(t),
		"content": testkit.Must(k.Encode(client.PartOutput, client.Content{Kind: client.Text, Data: []byte("y")}, "key a 1"))(t),
		"kind":    testkit.Must(k.Encode(client.PartOutput, client.Content{Kind: client.Bytes, Data: []byte("x")}, "key a 1"))(t),
		"part":    testkit.Must(k.Encode(client.PartError, c, "key a 1"))(t),
		"key":     testkit.Must(keys(t, encryption.NewKey()).Encode(client.PartOutput, c, "key a 1"))(t),
	} {
		testkit.Holds(t, string(other[24:nonce]) != string(text[24:nonce]), "another", name, "has the same nonce")
	}
}

// TestRotation: the first key encrypts, and all decrypt.
func TestRotation(t *testing.T) {
	before, after := encryption.NewKey(), encryption.NewKey()
	c := client.Content{Kind: client.Text, Data: []byte("x")}
	old := testkit.Must(keys(t, before).Encode(client.PartPayload, c, ""))(t)
	both := keys(t, after, "", "# the key before", before)
	testkit.Equal(t, string(testkit.Must(both.Decode(client.PartPayload, old))(t).Data), "x")
	newer := testkit.Must(both.Encode(client.PartPayload, c, ""))(t)
	testkit.Equal(t, string(testkit.Must(keys(t, after).Decode(client.PartPayload, newer))(t).Data), "x")
	testkit.Fails(keys(t, after).Decode(client.PartPayload, old))(t, encryption.ErrNoKey, both.IDs()[1])
}

// TestAltered: each changed byte, each lost or added one, and each exchange of parts is refused.
func TestAltered(t *testing.T) {
	k := keys(t, encryption.NewKey())
	text := testkit.Must(k.Encode(client.PartPayload, client.Content{Kind: client.Text, Data: []byte("hello")}, ""))(t)
	for i := range text {
		for bit := range 8 {
			other := bytes.Clone(text)
			other[i] ^= 1 << bit
			if got, err := k.Decode(client.PartPayload, other); err == nil {
				t.Errorf("byte %d, bit %d: %q is read as %q", i, bit, other, got.Data)
			}
		}
		testkit.Fails(k.Decode(client.PartPayload, text[:i]))(t)
		for _, added := range "\n\r=A. " {
			other := append(append(bytes.Clone(text[:i]), byte(added)), text[i:]...)
			if _, err := k.Decode(client.PartPayload, other); err == nil {
				t.Errorf("with %q at byte %d, the text is read", added, i)
			}
		}
	}
	for _, made := range []client.Part{client.PartPayload, client.PartOutput, client.PartError} {
		text := testkit.Must(k.Encode(made, client.Content{Kind: client.Text, Data: []byte("x")}, ""))(t)
		for _, read := range []client.Part{client.PartPayload, client.PartOutput, client.PartError} {
			_, err := k.Decode(read, text)
			allowed := made == read || made == client.PartOutput && read == client.PartPayload // the payload of the job that follows
			testkit.Holds(t, (err == nil) == allowed && (allowed || errors.Is(err, encryption.ErrAltered)), made, "read as", read, err)
		}
		relabelled := bytes.Replace(text, []byte("dbe1."+string(text[5])), []byte("dbe1.o"), 1)
		_, err := k.Decode(client.PartOutput, relabelled)
		testkit.Holds(t, (err == nil) == (made == client.PartOutput), made, "with the letter of an output", err)
	}
	testkit.Fails(k.Decode(client.PartPayload, []byte("hello")))(t, encryption.ErrNotEncrypted)
	testkit.Equal(t, string(testkit.Must(k.Decode(client.PartError, []byte("the lease has ended")))(t).Data), "the lease has ended")
}

// TestKeyOf: texts of Encode are recognized without a key, also an output in the place of a payload; texts that only begin
// like one are not.
func TestKeyOf(t *testing.T) {
	k := keys(t, encryption.NewKey())
	id := k.IDs()[0]
	for _, c := range contents() {
		for made, read := range map[client.Part][]client.Part{
			client.PartPayload: {client.PartPayload}, client.PartOutput: {client.PartOutput, client.PartPayload}, client.PartError: {client.PartError},
		} {
			text := testkit.Must(k.Encode(made, c, ""))(t)
			for _, part := range []client.Part{client.PartPayload, client.PartOutput, client.PartError, "other"} {
				got, is := encryption.KeyOf(part, text)
				testkit.Holds(t, is == slices.Contains(read, part) && (!is || got == id), made, "as", part, got, is)
			}
		}
	}
	text := string(testkit.Must(k.Encode(client.PartPayload, client.Content{Kind: client.Text}, ""))(t))
	for name, other := range map[string]string{
		"empty": "", "the prefix": "dbe1.p.", "the head": text[:24], "too short": text[:len(text)-1], "a sentence": "dbe1.p. is how an encrypted payload begins, and so on and on",
		"another version": "dbe2" + text[4:], "no point": strings.Replace(text, ".p.", ".p-", 1), "no point after the id": text[:23] + "-" + text[24:],
		"a capital letter in the id": text[:7] + "A" + text[8:], "a space at the end": text + " ", "a newline": text + "\n", "padding": text + "=", "a prefix": " " + text, "another part": "dbe1.x" + text[6:],
	} {
		_, is := encryption.KeyOf(client.PartPayload, []byte(other))
		testkit.Holds(t, !is, name, other)
	}
}

// TestParse: the texts of keys that are refused; no error, and no text of Keys, has a secret.
func TestParse(t *testing.T) {
	one := encryption.NewKey()
	secret := one[len(one)-64:]
	for name, text := range map[string]string{
		"no key":         "\n# none\n",
		"another prefix": strings.Replace(one, "dbe_", "dbk_", 1),
		"another secret": one[:len(one)-1] + string("01"[one[len(one)-1]&1^1]),
		"short":          one[:len(one)-2],
		"no id":          "dbe_" + secret,
		"not hex":        one[:len(one)-1] + "g",
		"twice":          one + "\n" + one,
	} {
		_, err := encryption.Parse([]byte(text))
		testkit.Holds(t, err != nil && !strings.Contains(err.Error(), secret[:16]), name, err)
	}
	many := make([]string, 101)
	for i := range many {
		many[i] = encryption.NewKey()
	}
	testkit.Fails(encryption.Parse([]byte(strings.Join(many, "\n"))))(t, "more than 100")
	k := keys(t, many[:100]...)
	testkit.Equal(t, len(k.IDs()), 100)
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "keys", k)
	nonce := hex.EncodeToString([]byte(many[0]))
	for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v", k, k), logged.String()} {
		testkit.Lacks(t, shown, many[0][len(many[0])-64:], nonce)
	}
}

// TestReadFile: a file that other users can read is refused, and the error names the file.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.key")
	testkit.Fails(encryption.ReadFile(path))(t, os.ErrNotExist)
	testkit.NoError(t, os.WriteFile(path, []byte(golden+"\n"), 0o600))
	testkit.Equal(t, testkit.Must(encryption.ReadFile(path))(t).IDs()[0], "630dcd2966c43366")
	if runtime.GOOS != "windows" {
		testkit.NoError(t, os.Chmod(path, 0o644))
		testkit.Fails(encryption.ReadFile(path))(t, encryption.ErrReadable, path, "chmod")
		testkit.NoError(t, os.Chmod(path, 0o640))
		testkit.Must(encryption.ReadFile(path))(t)
	}
	testkit.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("#\n"), 40_000), 0o600))
	testkit.Fails(encryption.ReadFile(path))(t, path)
	testkit.Fails(encryption.ReadFile(t.TempDir()))(t)
}

// TestGolden: texts of this format are read for ever. Programs in other languages read the same file.
func TestGolden(t *testing.T) {
	const path = "testdata/golden.txt"
	k := keys(t, golden)
	if *rewrite {
		var b bytes.Buffer
		fmt.Fprintln(&b, golden)
		for i, c := range contents()[:4] {
			part := []client.Part{client.PartPayload, client.PartPayload, client.PartOutput, client.PartError}[i]
			fmt.Fprintf(&b, "%s %s %x %s\n", part, c.Kind, c.Data, testkit.Must(k.Encode(part, c, "golden"))(t))
		}
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	_, lines, _ := strings.Cut(string(testkit.Must(os.ReadFile(path))(t)), "\n")
	n := 0
	for line := range strings.Lines(lines) {
		f := strings.Split(strings.TrimSpace(line), " ")
		testkit.MustEqual(t, len(f), 4, line)
		got := testkit.Must(k.Decode(client.Part(f[0]), []byte(f[3])))(t)
		testkit.Holds(t, string(got.Kind) == f[1] && hex.EncodeToString(got.Data) == f[2], line, got)
		testkit.Equal(t, string(testkit.Must(k.Encode(client.Part(f[0]), got, "golden"))(t)), f[3], "encrypted again")
		n++
	}
	testkit.Equal(t, n, 4, "texts")
}

// FuzzDecode: no text makes Decode panic, and only texts that Encode made are read.
func FuzzDecode(f *testing.F) {
	k := keys(f, golden)
	made := testkit.Must(k.Encode(client.PartPayload, client.Content{Kind: client.Text, Data: []byte("hello")}, "golden"))(f)
	for _, seed := range []string{string(made), "", "dbe1.", "dbe1.p.630dcd2966c43366.", "dbe1.p.630dcd2966c43366." + strings.Repeat("A", 39), "dbe1.p.0000000000000000." + strings.Repeat("A", 60)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		c, err := k.Decode(client.PartPayload, text)
		testkit.Holds(t, err != nil || bytes.Equal(text, made), "read as", c)
		testkit.Holds(t, bytes.Equal(text, before), "Decode has changed its argument")
		testkit.Holds(t, err == nil || errors.Is(err, encryption.ErrAltered) || errors.Is(err, encryption.ErrNoKey) || errors.Is(err, encryption.ErrNotEncrypted), err)
	})
}

func BenchmarkEncode(b *testing.B) {
	k, c := keys(b, golden), client.Content{Kind: client.Text, Data: bytes.Repeat([]byte("x"), 100)}
	b.ReportAllocs()
	for b.Loop() {
		testkit.Must(k.Encode(client.PartPayload, c, ""))(b)
	}
}
