package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestKeyCommands: from the first key on commands need a key: from a file, a variable or a context. Rotated and revoked keys are
// refused, and no output but those of create and rotate has the text of a key.
func TestKeyCommands(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	s := serving(t, t.TempDir())
	at := func(args ...string) []string { return append(args, "--server", s.url) }
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	testkit.Holds(t, strings.Contains(ok(t, at("key", "whoami")...), "no keys"))
	boss := file("boss.key", ok(t, at("key", "create", "boss", "--role", "admin")...))
	refused := execute(t, "", at("queues")...)
	testkit.Holds(t, refused.code != terminal.ExitOK && strings.Contains(refused.errs, "key_required"), refused)

	as := func(key string, args ...string) []string { return append(at(args...), "--key-file", key) }
	made := parsed[client.Key](t, ok(t, as(boss, "key", "create", "w", "--role", "worker", "--role", "reader", "--expires", "24h", "--json")...))
	testkit.Holds(t, made.Name == "w" && len(made.Roles) == 2 && made.ExpiresAt != nil && strings.HasPrefix(made.Text, "dbk_w_"), made)
	worker := file("w.key", made.Text)
	ok(t, as(worker, "queues")...)
	denied := execute(t, "", as(worker, "key", "list")...)
	testkit.Holds(t, denied.code != terminal.ExitOK && strings.Contains(denied.errs, "role_missing"), denied)

	list := ok(t, as(boss, "key", "ls")...)
	testkit.Holds(t, strings.Contains(list, "w: worker, reader until ") && !strings.Contains(list, "dbk_"), list)
	testkit.Holds(t, strings.Contains(ok(t, as(boss, "top", "--once")...), "ready"))
	got := ok(t, as(boss, "key", "get", "boss", "--json")...)
	testkit.Holds(t, parsed[client.Key](t, got).Generation == 1 && !strings.Contains(got, "dbk_"), got)

	t.Setenv("DAYBOOK_KEY", made.Text)
	testkit.Holds(t, strings.HasPrefix(ok(t, at("key", "whoami")...), "w: "))
	t.Setenv("DAYBOOK_KEY", made.Text[:20])
	wrong := execute(t, "", at("queues")...)
	testkit.Holds(t, wrong.code == terminal.ExitUsage && strings.Contains(wrong.errs, "DAYBOOK_KEY") && !strings.Contains(wrong.errs, made.Text[:20]), wrong)
	t.Setenv("DAYBOOK_KEY", "")

	ok(t, "context", "add", "here", s.url, "--key-file", boss)
	rotated := file("w2.key", ok(t, "key", "rotate", "w"))
	testkit.Holds(t, execute(t, "", as(worker, "queues")...).code != terminal.ExitOK, "the old secret is good")
	ok(t, as(rotated, "queues")...)
	ok(t, "key", "revoke", "w")
	testkit.Holds(t, execute(t, "", as(rotated, "queues")...).code != terminal.ExitOK, "a revoked key is good")

	imported := execute(t, made.Text+"\n", "key", "import", "w", "--role", "reader")
	testkit.MustEqual(t, imported.code, terminal.ExitOK, imported.errs)
	ok(t, as(worker, "queues")...)
	other := execute(t, made.Text, "key", "import", "x", "--role", "reader")
	testkit.Holds(t, other.code == terminal.ExitUsage && !strings.Contains(other.errs, made.Text), other)
}

// TestKeyRates: rates are set, shown and kept by a rotation; what cannot be a rate is wrong usage.
func TestKeyRates(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	s := serving(t, t.TempDir())
	boss := filepath.Join(dir, "boss.key")
	testkit.NoError(t, os.WriteFile(boss, []byte(ok(t, "key", "create", "boss", "--role", "admin", "--server", s.url)), 0o600))
	as := func(args ...string) []string { return append(args, "--server", s.url, "--key-file", boss) }
	create := func(rates ...string) []string {
		args := []string{"key", "create", "p", "--role", "producer"}
		for _, rate := range rates {
			args = append(args, "--rate", rate)
		}
		return as(args...)
	}
	for _, wrong := range [][]string{{"more=1"}, {"creates"}, {"creates=0"}, {"creates=-1"}, {"creates=1.5"}, {"reads=1", "reads=2"}, {"bytes=1"}} {
		refused := execute(t, "", create(wrong...)...)
		testkit.Holds(t, refused.code == terminal.ExitUsage && strings.Contains(refused.errs, "--rate"), wrong, refused)
	}
	ok(t, create("creates=1000", "parked_claims=5")...)
	const want = "p: producer creates=1000 parked_claims=5\n"
	testkit.Equal(t, ok(t, as("key", "get", "p")...), want)
	ok(t, as("key", "rotate", "p")...)
	testkit.Contains(t, ok(t, as("key", "list")...), want)
	testkit.Equal(t, *parsed[client.Key](t, ok(t, as("key", "get", "p", "--json")...)).Rates, client.Rates{Creates: 1000, ParkedClaims: 5})
}
