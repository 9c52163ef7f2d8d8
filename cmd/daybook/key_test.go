package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
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

// TestBackupByKey: a key with the role backup is enough for a backup with blobs.
func TestBackupByKey(t *testing.T) {
	dir := t.TempDir()
	s := serving(t, filepath.Join(dir, "data"))
	for _, client := range []string{"", "acme"} {
		ok(t, "blob", "put", "--server", s.url, "--client", client, os.Args[0])
	}
	ok(t, "key", "create", "boss", "--role", "admin", "--server", s.url)
	s.end(t, syscall.SIGTERM)
	nightly := keyFile(t, filepath.Join(dir, "nightly.key"), strings.TrimSpace(ok(t, "key", "create", "nightly", "--role", "backup", "--data", s.data)))
	s = serving(t, s.data)
	report := parsed[backupReport](t, ok(t, "backup", filepath.Join(dir, "backups"), "--json", "--server", s.url, "--key-file", nightly))
	testkit.Equal(t, report.Blobs, 2)
	execute(t, "", "jobs", "--server", s.url, "--key-file", nightly).ends(t, terminal.ExitRefused, "role_missing")
}

// TestKeysOfAStoppedServer: with --data, the commands need no key and no server, and follow the same rules. A running server and the
// data of a node are refused.
func TestKeysOfAStoppedServer(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	at := func(args ...string) []string { return append(append([]string{"key"}, args...), "--data", data) }
	execute(t, "", at("list")...).ends(t, terminal.ExitNoData, data)
	s := serving(t, data)
	execute(t, "", at("list")...).ends(t, terminal.ExitDataInUse, "--server instead of --data")
	s.end(t, syscall.SIGTERM)

	t.Setenv("DAYBOOK_DATA", filepath.Join(dir, "other")) // is a server's
	t.Setenv("DAYBOOK_SERVER", s.url)                     // and so is this, which does not run
	testkit.Equal(t, ok(t, at("list")...), "")
	execute(t, "", at("create", "p", "--role", "producer")...).ends(t, terminal.ExitRefused, "admin_key_first")
	boss := keyFile(t, filepath.Join(dir, "boss.key"), strings.TrimSpace(ok(t, at("create", "boss", "--role", "admin")...)))
	made := parsed[client.Key](t, ok(t, at("create", "w", "--role", "worker", "--json")...))
	testkit.Holds(t, strings.HasPrefix(made.Text, "dbk_w_") && made.Generation == 1, made)
	execute(t, "", at("create", "w", "--role", "worker")...).ends(t, terminal.ExitRefused, "key_exists")
	rotated := keyFile(t, filepath.Join(dir, "w.key"), strings.TrimSpace(ok(t, at("rotate", "w")...)))
	testkit.Equal(t, execute(t, made.Text, at("import", "x", "--role", "reader")...).code, terminal.ExitUsage)
	reader := execute(t, job.KeyText("r", [job.SecretBytes]byte{7}), at("import", "r", "--role", "reader")...)
	testkit.Equal(t, reader.code, terminal.ExitOK, reader.errs)
	testkit.Equal(t, ok(t, at("revoke", "r")...), "revoked r\n")
	execute(t, "", at("get", "r")...).ends(t, terminal.ExitNotFound)
	testkit.Equal(t, ok(t, at("list")...), "boss: admin\nw: worker\n")
	execute(t, "", at("list", "--server", s.url)...).ends(t, terminal.ExitUsage, "--server", "only one")
	testkit.Contains(t, ok(t, "check", "--data", data), "ok")

	t.Setenv("DAYBOOK_SERVER", "")
	t.Setenv("DAYBOOK_DATA", "")
	s = serving(t, data)
	testkit.Contains(t, ok(t, "key", "list", "--server", s.url, "--key-file", boss), "boss: admin, last used in the hour from 20", "w: worker\n")
	ok(t, "queues", "--server", s.url, "--key-file", rotated)
	old := keyFile(t, filepath.Join(dir, "w.old.key"), made.Text)
	execute(t, "", "queues", "--server", s.url, "--key-file", old).ends(t, terminal.ExitRefused, "key_refused")
	s.end(t, syscall.SIGTERM)

	// A stop keeps the hours of the last uses.
	kept := ok(t, at("list")...)
	testkit.Contains(t, kept, "boss: admin, last used", "w: worker, last used")
	testkit.NoError(t, os.WriteFile(filepath.Join(data, "key-uses"), []byte("boss 3600000\nnobody 7200000\nbroken\nw x\n"), 0o600))
	testkit.Equal(t, ok(t, at("list")...), "boss: admin, last used in the hour from 1970-01-01T01:00:00Z\nw: worker\n")

	n := startNode(t, "n1", data, "--cluster-init")
	n.end(t, syscall.SIGTERM)
	execute(t, "", at("revoke", "w")...).ends(t, terminal.ExitUsage, "node n1 of a cluster", "start it")
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

// TestWorkWithKeys: a runner whose key is revoked, lacks a role or is not for the given clients ends with its own exit code, and
// says why. Without --clients and --types, it runs the jobs that its key is for.
func TestWorkWithKeys(t *testing.T) {
	dir := t.TempDir()
	s := serving(t, t.TempDir())
	at := func(key string, args ...string) []string {
		args = append(args, "--server", s.url)
		if key != "" {
			args = append(args, "--key-file", filepath.Join(dir, key))
		}
		return args
	}
	create := func(by, name string, args ...string) {
		writeFile(t, dir, name, ok(t, at(by, append([]string{"key", "create", name}, args...)...)...))
	}
	create("", "boss", "--role", "admin")
	create("boss", "shop", "--role", "producer")
	create("boss", "acme", "--role", "worker", "--role", "producer", "--client", "acme", "--type", "a")
	create("boss", "all", "--role", "worker")
	quick := writeFile(t, dir, "quick.toml", "[handlers.a]\nkind = \"exec\"\nargv = [\"cat\"]\n[handlers.b]\nkind = \"exec\"\nargv = [\"cat\"]\n")
	work := func(key string, args ...string) []string {
		return at(key, append([]string{"work", "--config", quick, "--sandbox", "off", "--until-idle", "300ms"}, args...)...)
	}
	execute(t, "", work("shop")...).ends(t, terminal.ExitRefused, "role_missing", "worker")
	execute(t, "", work("acme", "--clients", "umbra")...).ends(t, terminal.ExitRefused, "the key acme is not for the client umbra, but for acme")
	execute(t, "", work("acme", "--id", "acme-1", "--types", "a,b")...).ends(t, terminal.ExitRefused, "not for the type b")
	ok(t, at("acme", "create", "x", "--type", "a", "--client", "acme")...)
	ok(t, work("acme")...)
	testkit.Contains(t, ok(t, at("boss", "jobs")...), "acme/a", "completed")

	slow := writeFile(t, dir, "slow.toml", "[handlers.slow]\nkind = \"exec\"\nargv = [\"sleep\", \"600\"]\n")
	id := strings.TrimSpace(ok(t, at("boss", "create", "x", "--type", "slow")...))
	running := command(at("all", "work", "--config", slow, "--sandbox", "off", "--log-format", "json", "--drain", "1h")...)
	log := &processLog{}
	running.Stderr = log
	testkit.NoError(t, running.Start())
	testkit.Eventually(t, "the job runs", func() bool { return strings.Contains(ok(t, at("boss", "get", "--job", id)...), "active") })
	ok(t, at("boss", "key", "revoke", "all")...)
	exit, is := errors.AsType[*exec.ExitError](running.Wait())
	testkit.Holds(t, is && exit.ExitCode() == terminal.ExitRefused, exit, log.String())
	testkit.Contains(t, log.String(), "the server refuses the key of this runner, which ends", "key_refused")
}

// TestKeyOrder: a command takes its key from the flag, then from the variables, then from a file with settings, and then from the
// context. daybook config shows which one, and no text of a key.
func TestKeyOrder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	s := serving(t, t.TempDir())
	texts := map[string]string{}
	create := func(name string, by ...string) string {
		texts[name] = ok(t, append([]string{"key", "create", name, "--role", "admin", "--server", s.url}, by...)...)
		return writeFile(t, dir, name, texts[name])
	}
	boss := create("boss")
	byFlag, bySettings := create("flag", "--key-file", boss), create("settings", "--key-file", boss)
	byFile := create("file", "--key-file", boss)
	create("variable", "--key-file", boss)
	ok(t, "context", "add", "here", s.url, "--key-file", boss)
	settings := writeFile(t, dir, "daybook.toml", "key-file = '"+bySettings+"'\n")
	is := func(name string, args ...string) {
		t.Helper()
		testkit.Contains(t, ok(t, append([]string{"key", "whoami"}, args...)...), name+": admin")
		for _, text := range texts {
			testkit.Lacks(t, ok(t, append([]string{"config", "jobs", "--json", "--"}, args...)...), strings.TrimSpace(text)[12:])
		}
	}
	shown := func(want string, args ...string) {
		t.Helper()
		out := ok(t, append([]string{"config", "jobs"}, args...)...)
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); f[0] == "key-file" {
				testkit.Equal(t, strings.Join(f[1:], " "), want)
				return
			}
		}
		t.Errorf("key-file is not shown: %s", out)
	}
	is("boss")
	shown(boss + ` context "here"`)
	is("boss", "--context", "here")
	testkit.Contains(t, ok(t, "key", "whoami", "--config", settings), "settings: admin")
	t.Setenv("DAYBOOK_KEY", texts["variable"])
	is("variable")
	shown("DAYBOOK_KEY")
	testkit.Contains(t, ok(t, "key", "whoami", "--config", settings), "variable: admin")
	testkit.Contains(t, ok(t, "config", "jobs", "--toml"), "# key-file = '' # DAYBOOK_KEY")
	t.Setenv("DAYBOOK_KEY_FILE", byFile)
	is("file")
	shown(byFile + " DAYBOOK_KEY_FILE")
	is("flag", "--key-file", byFlag)
	shown(byFlag+" command line", "--", "--key-file", byFlag)
}

// TestNamesOfKeys: create and add use the only client of a key, and claim the prefix of its runners, if none are given.
func TestNamesOfKeys(t *testing.T) {
	dir := t.TempDir()
	s := serving(t, t.TempDir())
	boss := writeFile(t, dir, "boss", ok(t, "key", "create", "boss", "--role", "admin", "--server", s.url))
	as := func(key string, args ...string) []string { return append(args, "--server", s.url, "--key-file", key) }
	one := writeFile(t, dir, "one", ok(t, as(boss, "key", "create", "one", "--role", "producer", "--role", "worker", "--client", "acme")...))
	two := writeFile(t, dir, "two", ok(t, as(boss, "key", "create", "two", "--role", "producer", "--client", "acme", "--client", "umbra")...))
	ok(t, as(one, "create", "x", "--type", "a")...)
	execute(t, "y\nz\n", as(one, "add", "--type", "b")...).ends(t, terminal.ExitOK)
	testkit.Equal(t, strings.Count(ok(t, as(boss, "jobs")...), "acme/"), 3, "jobs of the client")
	execute(t, "", as(two, "create", "x")...).ends(t, terminal.ExitRefused, "out_of_scope")
	execute(t, "y\n", as(two, "add")...).ends(t, terminal.ExitRefused, "out_of_scope")
	execute(t, "", as(one, "create", "x", "--client", "umbra")...).ends(t, terminal.ExitRefused, "umbra")
	testkit.Contains(t, ok(t, as(one, "claim", "--type", "a")...), "acme/a")
	testkit.Contains(t, ok(t, as(boss, "jobs", "--status", "active")...), "one:daybook")
	execute(t, "", as(one, "claim", "--runner-id", "other")...).ends(t, terminal.ExitRefused, "other")
}

// TestReadableKeyFile: a command says once that all users can read the file with its key.
func TestReadableKeyFile(t *testing.T) {
	s := serving(t, t.TempDir())
	path := writeFile(t, t.TempDir(), "boss", ok(t, "key", "create", "boss", "--role", "admin", "--server", s.url))
	for mode, warns := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1} {
		testkit.NoError(t, os.Chmod(path, mode))
		r := execute(t, "", "create", "x", "--server", s.url, "--key-file", path).ends(t, terminal.ExitOK)
		testkit.Equal(t, strings.Count(r.errs, "all users of this machine can read the key in "+path), warns, mode)
	}
}
