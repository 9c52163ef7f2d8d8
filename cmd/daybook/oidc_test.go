package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/api/oidc/oidctest"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestServeOIDC: commands use a server with a token of an issuer. New rules count from SIGHUP on, which does not stop the server, and
// a bad file leaves the old ones.
func TestServeOIDC(t *testing.T) {
	issuer, dir := oidctest.New(t), t.TempDir()
	path, tokenPath := filepath.Join(dir, "oidc.toml"), filepath.Join(dir, "token")
	write := func(name, text string) {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	rules := func(role string) {
		write("oidc.toml", "[[issuer]]\nname = 'corp'\nurl = '"+oidctest.URL+"'\naudience = 'daybook'\njwks-file = 'keys.json'\n[[issuer.rule]]\nname = 'anna'\nclaims = { sub = 'anna' }\nroles = ['"+role+"']\n")
	}
	write("keys.json", string(issuer.Keys()))
	rules("producer")
	data := filepath.Join(dir, "data")
	s := launch(t, command("serve", "--listen", "127.0.0.1:0", "--data", data, "--init", "--oidc-file", path))
	write("token", issuer.Sign("one", oidctest.Claims("daybook", time.Now().Unix(), nil)))
	as := func(args ...string) []string { return append(args, "--server", s.url, "--key-file", tokenPath) }
	testkit.Contains(t, ok(t, as("key", "whoami")...), "oidc/corp/anna: producer")
	ok(t, as("create", "hello", "--type", "greet")...)
	refused := execute(t, "", "queues", "--server", s.url)
	testkit.Contains(t, refused.errs, "key_required")
	testkit.Contains(t, execute(t, "", as("key", "list")...).errs, "role_missing")

	rules("admin")
	testkit.NoError(t, s.Process.Signal(syscall.SIGHUP))
	testkit.Eventually(t, "SIGHUP takes the new rules", func() bool { return execute(t, "", as("key", "list")...).code == terminal.ExitOK })
	rules("root")
	testkit.NoError(t, s.Process.Signal(syscall.SIGHUP))
	testkit.Eventually(t, "the bad file is logged", func() bool { return strings.Contains(s.log.String(), "the old one remains in use") })
	testkit.Contains(t, s.log.String(), "oidc.toml:9: role")
	ok(t, as("key", "list")...)
	token := string(testkit.Must(os.ReadFile(tokenPath))(t))
	testkit.Holds(t, !strings.Contains(s.log.String(), token), "the log has the token")

	for _, args := range [][]string{{"--oidc-file", path}, {"--oidc-file", path + ".none"}, {"--allow-origin", "https://board.example/"}, {"--allow-origin", "*"}} {
		fresh := filepath.Join(t.TempDir(), "data")
		wrong := execute(t, "", append([]string{"serve", "--listen", "127.0.0.1:0", "--init", "--data", fresh}, args...)...)
		testkit.Equal(t, wrong.code, terminal.ExitUsage, wrong)
		testkit.Contains(t, wrong.errs, args[0])
		_, err := os.Stat(fresh)
		testkit.Holds(t, os.IsNotExist(err), "a refused start makes a data directory", err)
	}
}
