package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// keyFile writes a file with the text of a key.
func keyFile(t *testing.T, path, text string) string {
	t.Helper()
	testkit.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
	return path
}

// TestAdminKeyFile: the first start makes a key and its file, and no request passes without a key. A restart changes nothing. After
// the file is deleted, the next start makes another key.
func TestAdminKeyFile(t *testing.T) {
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "admin.key")
	s := serving(t, data, "--admin-key-file", file)
	testkit.Equal(t, testkit.Must(os.Stat(file))(t).Mode().Perm(), fs.FileMode(0o600))
	first := string(testkit.Must(os.ReadFile(file))(t))
	testkit.Holds(t, strings.HasPrefix(first, "dbk_admin_"), first)
	whoami := func() client.Key {
		t.Helper()
		return parsed[client.Key](t, ok(t, "key", "whoami", "--json", "--server", s.url, "--key-file", file))
	}
	me := whoami()
	testkit.Holds(t, me.Name == "admin" && len(me.Roles) == 1 && me.Roles[0] == "admin" && me.ExpiresAt == nil, me)
	execute(t, "", "queues", "--server", s.url).ends(t, terminal.ExitRefused, "key_required")
	testkit.Lacks(t, s.log.String(), strings.TrimSpace(first))
	testkit.Holds(t, len(testkit.Must(os.ReadDir(dir))(t)) == 2, "a start left other files beside", file)
	s.end(t, syscall.SIGTERM)

	t.Setenv("DAYBOOK_ADMIN_KEY_FILE", file)
	s = serving(t, data)
	testkit.Equal(t, string(testkit.Must(os.ReadFile(file))(t)), first)
	testkit.Equal(t, parsed[client.Key](t, ok(t, "key", "get", "admin", "--json", "--server", s.url, "--key-file", file)).Generation, 1)
	s.end(t, syscall.SIGKILL)

	old := keyFile(t, filepath.Join(dir, "old.key"), strings.TrimSpace(first))
	testkit.NoError(t, os.Remove(file))
	s = serving(t, data)
	testkit.Equal(t, whoami().Name, "admin-2")
	ok(t, "queues", "--server", s.url, "--key-file", old)
	ok(t, "key", "revoke", "admin", "--server", s.url, "--key-file", file)
	ok(t, "key", "rotate", "admin-2", "--server", s.url, "--key-file", file)
	s.end(t, syscall.SIGTERM)

	// A start does not bring back a key that was rotated or revoked, and serves all the same.
	s = serving(t, data)
	testkit.Contains(t, s.log.String(), "it was rotated")
	execute(t, "", "queues", "--server", s.url, "--key-file", file).ends(t, terminal.ExitRefused, "key_refused")
	s.end(t, syscall.SIGTERM)
	s = serving(t, data, "--admin-key-file", old)
	testkit.Contains(t, s.log.String(), "was revoked")
	execute(t, "", "queues", "--server", s.url, "--key-file", old).ends(t, terminal.ExitRefused, "key_refused")
	s.end(t, syscall.SIGTERM)

	// The next step of these errors: without the file, there is another admin, under a name that no key ever had.
	testkit.NoError(t, os.Remove(file))
	s = serving(t, data)
	testkit.Equal(t, whoami().Name, "admin-3")
}

// TestAdminKeyFileOfAnEarlierKey: a file with the text of a key does not take the place of a newer key of its name: not after the key
// was revoked, and not after so many rotations that the server has forgotten the text.
func TestAdminKeyFileOfAnEarlierKey(t *testing.T) {
	dir := t.TempDir()
	data, file, boss := filepath.Join(dir, "data"), filepath.Join(dir, "admin.key"), filepath.Join(dir, "boss.key")
	s := serving(t, data, "--admin-key-file", file)
	change := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(ok(t, append(append([]string{"key"}, args...), "--server", s.url, "--key-file", boss)...))
	}
	keyFile(t, boss, strings.TrimSpace(string(testkit.Must(os.ReadFile(file))(t))))
	keyFile(t, boss, change("create", "boss", "--role", "admin"))
	change("revoke", "admin")
	newer := keyFile(t, filepath.Join(dir, "newer.key"), change("create", "admin", "--role", "admin"))
	s.end(t, syscall.SIGTERM)

	refused := func(old, newer, says string) {
		t.Helper()
		s = serving(t, data, "--admin-key-file", old)
		testkit.Contains(t, s.log.String(), says)
		ok(t, "queues", "--server", s.url, "--key-file", newer)
		execute(t, "", "queues", "--server", s.url, "--key-file", old).ends(t, terminal.ExitRefused, "key_refused")
	}
	refused(file, newer, "does not have all earlier versions")
	forgotten := filepath.Join(dir, "forgotten.key")
	keyFile(t, forgotten, change("create", "rotated", "--role", "admin"))
	latest := keyFile(t, filepath.Join(dir, "latest.key"), "")
	for range job.MaxDocumentVersions + 1 {
		keyFile(t, latest, change("rotate", "rotated"))
	}
	s.end(t, syscall.SIGTERM)
	refused(forgotten, latest, "does not have all earlier versions")
}

// TestAdminKeyFileThatExists: a key that the store does not know is stored, also under the name of another secret, as after a
// restore. A start completes one that a crash has ended between the file and the key.
func TestAdminKeyFileThatExists(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	s := serving(t, data)
	ok(t, "key", "create", "boss", "--role", "admin", "--server", s.url)
	s.end(t, syscall.SIGTERM)
	for _, name := range []string{"boss", "another"} {
		file := keyFile(t, filepath.Join(dir, name), job.KeyText(name, [job.SecretBytes]byte{1}))
		s = serving(t, data, "--admin-key-file", file)
		key := parsed[client.Key](t, ok(t, "key", "get", name, "--json", "--server", s.url, "--key-file", file))
		generations := map[string]int{"boss": 2, "another": 1}
		testkit.Holds(t, key.Generation == generations[name] && len(key.Roles) == 1 && key.Roles[0] == "admin", key)
		s.end(t, syscall.SIGTERM)
	}
}

// TestAdminKeyFileIsRefused: a file that others can read, or that has no key, and one that cannot be made.
func TestAdminKeyFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	data, secret := filepath.Join(dir, "data"), job.KeyText("boss", [job.SecretBytes]byte{1})
	start := func(file string) result {
		return execute(t, "", "serve", "--listen", "127.0.0.1:0", "--data", data, "--init", "--admin-key-file", file)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620} {
		file := keyFile(t, filepath.Join(dir, "open.key"), secret)
		testkit.NoError(t, os.Chmod(file, mode))
		start(file).ends(t, terminal.ExitUsage, "other users", "chmod 600 "+file).lacks(t, secret)
	}
	cut := keyFile(t, filepath.Join(dir, "cut.key"), secret[:40])
	start(cut).ends(t, terminal.ExitUsage, "--admin-key-file "+cut, "delete it").lacks(t, secret[:40])
	start(dir).ends(t, terminal.ExitUsage, dir)
	testkit.Fails(os.Stat(data))(t, fs.ErrNotExist) // nothing was made

	missing := filepath.Join(dir, "missing", "admin.key")
	r := start(missing)
	testkit.Holds(t, r.code != terminal.ExitOK && strings.Contains(r.errs, missing), r)
}

// TestAdminKeyFileOfNodes: nodes with the same file share its key, and a node with a file of its own has another key.
func TestAdminKeyFileOfNodes(t *testing.T) {
	dir := t.TempDir()
	shared, own := filepath.Join(dir, "shared.key"), filepath.Join(dir, "own.key")
	n1 := startNode(t, "n1", filepath.Join(dir, "n1"), "--cluster-init", "--admin-key-file", shared)
	n2 := startNode(t, "n2", filepath.Join(dir, "n2"), "--join", n1.address, "--admin-key-file", shared)
	n3 := startNode(t, "n3", filepath.Join(dir, "n3"), "--join", n1.address, "--admin-key-file", own)
	for _, n := range []*node{n1, n2, n3} {
		for file, name := range map[string]string{shared: "admin-n1", own: "admin-n3"} {
			testkit.Equal(t, parsed[client.Key](t, ok(t, "key", "whoami", "--json", "--server", n.url, "--key-file", file)).Name, name, "at", n.name)
		}
	}
	testkit.Contains(t, ok(t, "key", "list", "--server", n2.url, "--key-file", own), "admin-n1: admin", "admin-n3: admin")
}

// TestKeyTextAsPath: the text of a key in the place of a path is not printed.
func TestKeyTextAsPath(t *testing.T) {
	text := job.KeyText("boss", [job.SecretBytes]byte{1})
	execute(t, "", "queues", "--key-file", text).ends(t, terminal.ExitUsage, "the text of a key, and not the path of a file").lacks(t, text)
}
