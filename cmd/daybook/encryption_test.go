package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestKeyEncryption: the file of a key can be read by its owner only, and is never replaced; --rotate adds a key.
func TestKeyEncryption(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.key")
	execute(t, "", "key", "encryption", "--rotate", path).ends(t, terminal.ExitUsage, path)
	made := ok(t, "key", "encryption", path)
	info := testkit.Must(os.Stat(path))(t)
	first := string(testkit.Must(os.ReadFile(path))(t))
	testkit.Holds(t, info.Mode().Perm() == 0o600 && strings.HasPrefix(first, "dbe_"), info.Mode(), "the file")
	testkit.Holds(t, strings.Contains(made, first[4:20]) && !strings.Contains(made, first[21:40]), made)
	execute(t, "", "key", "encryption", path).ends(t, terminal.ExitFile, "--rotate")
	testkit.Equal(t, string(testkit.Must(os.ReadFile(path))(t)), first, "the file")
	rotated := parsed[struct{ File, ID string }](t, ok(t, "key", "encryption", "--rotate", "--json", path))
	testkit.Holds(t, rotated.File == path && strings.HasPrefix(string(testkit.Must(os.ReadFile(path))(t)), "dbe_"+rotated.ID+"_"), rotated)
	both := string(testkit.Must(os.ReadFile(path))(t))
	testkit.Holds(t, strings.HasSuffix(both, first) && len(both) == 2*len(first) && testkit.Must(os.Stat(path))(t).Mode().Perm() == 0o600, "the file after --rotate")
	testkit.Equal(t, len(testkit.Must(os.ReadDir(filepath.Dir(path)))(t)), 1, "files")
}

// TestEncryptedCommands: commands with --encrypt-key-file send and show jobs that the server cannot read. Without the key, and
// with another, they show what the server has, or fail with their own exit code; a job costs no attempt.
func TestEncryptedCommands(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	s := serving(t, t.TempDir())
	key, other := filepath.Join(dir, "jobs.key"), filepath.Join(dir, "other.key")
	ok(t, "key", "encryption", key)
	ok(t, "key", "encryption", other)
	plain := func(args ...string) []string { return append(args, "--server", s.url) }
	as := func(key string, args ...string) []string { return append(plain(args...), "--encrypt-key-file", key) }

	id := strings.TrimSpace(ok(t, as(key, "create", "secret", "--type", "a")...))
	ok(t, as(key, "create", `{"hidden":1}`, "--value", "--type", "a")...)
	lines := filepath.Join(dir, "lines")
	testkit.NoError(t, os.WriteFile(lines, []byte("secret\r\nhidden\r\n"), 0o600))
	ok(t, as(key, "add", "--type", "b", "--strip-cr", "--resume", filepath.Join(dir, "state"), lines)...)
	execute(t, "", plain("add", "--type", "b", "--strip-cr", "--resume", filepath.Join(dir, "state"), lines)...).ends(t, terminal.ExitUsage, "encryption")
	batch := strings.TrimSpace(ok(t, as(key, "submit", "--type", "c", "--strip-cr", lines)...))
	raw := ok(t, plain("jobs", "--json")...)
	testkit.Equal(t, strings.Count(raw, `"payload":"dbe1.p.`), 6, raw)
	testkit.Lacks(t, raw, "secret", "hidden")

	testkit.Contains(t, ok(t, as(key, "jobs", "--json")...), `"payload":"secret"`, `"payload":{"hidden":1}`, `"payload":"hidden"`)
	testkit.Contains(t, ok(t, as(key, "get", "--job", id)...), "secret")
	lost := testkit.Must(os.ReadFile(key))(t)[4:20] // the id of the key
	missing := "the key with which it is encrypted is missing: its id is \"" + string(lost) + "\""
	execute(t, "", as(other, "get", "--job", id)...).ends(t, terminal.ExitOK, missing).prints(t, "status", "pending", "cannot be decrypted: "+missing).lacks(t, "secret", "dbe1.", "undecodable")
	execute(t, "", as(other, "get", "--job", id, "--json")...).ends(t, terminal.ExitOK, missing).prints(t, id, `"payload":null`, `"undecodable":{"payload":"the key`).lacks(t, "dbe1.")
	execute(t, "", as(other, "jobs", "--type", "a", "--json")...).ends(t, terminal.ExitOK, missing).prints(t, id, `"payload":null`).lacks(t, "dbe1.")
	execute(t, "", as(other, "jobs", "--type", "a", "--json", "--fields", "payload,error")...).ends(t, terminal.ExitUndecodable, missing).prints(t, id)
	execute(t, "", as(other, "jobs", "--type", "a")...).ends(t, terminal.ExitOK).prints(t, id)

	execute(t, "", as(other, "claim", "--type", "a", "--max", "2")...).ends(t, terminal.ExitUndecodable, "key")
	testkit.Contains(t, ok(t, plain("get", "--json", "--job", id)...), `"status":"pending"`, `"run_attempts":0`)
	testkit.Contains(t, ok(t, as(key, "claim", "--type", "a", "--json")...), `"payload":"secret"`)
	testkit.Contains(t, ok(t, as(key, "complete", id, "--code", "failed", "--error", "the reason", "--output", "result", "--json")...), `"output":"result"`, `"error":"the reason"`)
	testkit.Lacks(t, ok(t, plain("get", "--json", "--job", id)...), "the reason", "result\"")
	testkit.Contains(t, ok(t, as(key, "jobs", "--type", "a", "--status", "failed")...), "the reason")
	execute(t, "", as(other, "jobs", "--type", "a", "--status", "failed")...).ends(t, terminal.ExitOK, missing).prints(t, id, "cannot be decrypted")
	execute(t, "", as(other, "get", "--job", id)...).ends(t, terminal.ExitOK, missing).prints(t, "failed", "cannot be decrypted").lacks(t, "dbe1.")
	execute(t, "", as(key, "watch", "--job", id)...).ends(t, terminal.ExitJobFailed, "the reason")

	config := filepath.Join(dir, "work.toml")
	testkit.NoError(t, os.WriteFile(config, []byte("[handlers.c]\nkind = \"exec\"\nargv = [\"tr\", \"a-z\", \"A-Z\"]\n"), 0o600))
	work := []string{"work", "--config", config, "--sandbox", "off", "--log-format", "json"}
	for _, args := range [][]string{as(other, work...), plain(work...)} { // with another key, and without one
		without := command(args...)
		log := &processLog{}
		without.Stderr = log
		testkit.NoError(t, without.Start())
		testkit.Eventually(t, "the runner says why", func() bool { return strings.Contains(log.String(), "the key with which it is encrypted is missing") })
		testkit.NoError(t, without.Process.Signal(syscall.SIGTERM))
		testkit.NoError(t, without.Wait(), log)
		testkit.Equal(t, strings.Count(ok(t, plain("jobs", "--type", "c", "--json")...), `"run_attempts":0`), 2)
	}
	with := command(as(key, work...)...)
	testkit.NoError(t, with.Start())
	ok(t, plain("watch", "--batch", batch)...) // the jobs may still wait for their return
	testkit.NoError(t, with.Process.Signal(syscall.SIGTERM))
	testkit.NoError(t, with.Wait())
	testkit.Contains(t, ok(t, as(key, "results", batch)...), "SECRET", "HIDDEN")
	testkit.Contains(t, ok(t, as(key, "results", batch, "--json")...), `"output":"SECRET"`)
	testkit.Lacks(t, ok(t, plain("results", batch)...), "SECRET", "HIDDEN")
	execute(t, "", as(other, "results", batch)...).ends(t, terminal.ExitUndecodable).lacks(t, "SECRET")

	t.Setenv("DAYBOOK_ENCRYPT_KEY_FILE", key)
	testkit.Contains(t, ok(t, plain("get", "--job", id)...), "secret")
	t.Setenv("DAYBOOK_ENCRYPT_KEY_FILE", "")
	ok(t, "context", "add", "here", s.url, "--encrypt-key-file", key)
	testkit.Contains(t, ok(t, "get", "--job", id), "secret")
	ok(t, "queues")
	secret := string(testkit.Must(os.ReadFile(key))(t))
	testkit.Lacks(t, ok(t, "config", "work", "--json")+ok(t, "context", "ls", "--json"), secret[21:40])

	testkit.NoError(t, os.Chmod(key, 0o644))
	execute(t, "", "get", "--job", id).ends(t, terminal.ExitUsage, key, "chmod").lacks(t, secret[21:40])
	execute(t, "", "work", "--until-idle", "1ms").ends(t, terminal.ExitUsage, "chmod")
}
