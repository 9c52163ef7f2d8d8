//go:build unix

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/encryption"
	"github.com/daybookq/daybook/internal/testkit"
)

// pythonWithCryptography is an interpreter that has the package cryptography: that of scripts/tools, or that of the machine.
func pythonWithCryptography() string {
	for _, python := range []string{"../../bin/python/bin/python", "python3"} {
		if exec.Command(python, "-c", "import cryptography").Run() == nil {
			return python
		}
	}
	return ""
}

// decryptors returns the command that decrypts in each language.
func decryptors(t *testing.T, l language) []string {
	if l.name == "typescript" {
		return []string{"node", filepath.Join(built, "typescript", "decrypt.js")}
	}
	python := pythonWithCryptography()
	if python == "" {
		testkit.MustEqual(t, os.Getenv("TESTS_NEED_PROGRAMS"), "", "TESTS_NEED_PROGRAMS is set, and no python has the package cryptography")
		t.Skip("skipped: no python has the package cryptography")
	}
	return []string{python, "python/decrypt.py"}
}

// TestDecrypt: programs in other languages read what the Go client stores in a server, and refuse other keys, other parts and
// changed texts.
func TestDecrypt(t *testing.T) {
	forEach(t, func(t *testing.T, l language) {
		if l.name == "go" {
			t.Skip("the Go client has its own tests")
		}
		decrypt := decryptors(t, l)
		s := daybooktest.Start(t)
		dir, key := t.TempDir(), encryption.NewKey()
		file := func(name string, lines ...string) string {
			path := filepath.Join(dir, name)
			testkit.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
			return path
		}
		keys, other := file("keys", "# keys", encryption.NewKey(), key), file("other", encryption.NewKey())
		c := client.New(s.URL, client.Options{Codec: testkit.Must(encryption.Parse([]byte(key)))(t)})
		ctx := t.Context()
		made := testkit.Must(c.Create(ctx, client.TextJob("x", "grün")))(t)
		claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r"}))(t)
		_, err := c.Complete(ctx, made.ID, claim.ID, client.Outcome{Code: "failed", Error: "the reason", Output: []byte(`{"a":1}`), OutputKind: client.JSON})
		testkit.NoError(t, err)
		raw := testkit.Must(s.Client.Job(ctx, made.ID))(t)
		run := func(keys, part, text string) (string, error) {
			cmd := exec.Command(decrypt[0], append(decrypt[1:], keys, part)...)
			cmd.Stdin = strings.NewReader(text + "\n")
			out, err := cmd.Output()
			return string(out), err
		}
		payload := string(raw.Payload)
		for _, ok := range []struct{ part, text, want string }{
			{"payload", payload, "text grün\n"}, {"output", string(raw.Output), "json {\"a\":1}\n"}, {"error", raw.Error, "text the reason\n"},
			{"payload", string(raw.Output), "json {\"a\":1}\n"},
		} {
			testkit.Equal(t, testkit.Must(run(keys, ok.part, ok.text))(t), ok.want, ok.part)
		}
		for name, bad := range map[string]struct{ keys, part, text string }{
			"another key": {other, "payload", payload}, "another part": {keys, "output", payload}, "another letter": {keys, "output", strings.Replace(payload, ".p.", ".o.", 1)},
			"changed": {keys, "payload", payload[:40] + string(payload[40]^1) + payload[41:]}, "plain": {keys, "payload", "grün"},
		} {
			out, err := run(bad.keys, bad.part, bad.text)
			testkit.Holds(t, err != nil && out == "", name, out)
		}
	})
}
