package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// withCertificate puts a certificate and its key, with these names, into a new directory.
func withCertificate(t *testing.T, certName, keyName string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	cert, key := testkit.NewAuthority(t).Issue(t, "server")
	testkit.NoError(t, os.Rename(cert, filepath.Join(dir, certName)))
	testkit.NoError(t, os.Rename(key, filepath.Join(dir, keyName)))
	return dir
}

// TestUnitWithTLS: the server accepts the settings of the variant with TLS and keys, which replace those of the packaged file, and
// its directories are those of the unit.
func TestUnitWithTLS(t *testing.T) {
	text := string(testkit.Must(os.ReadFile("systemd/tls.conf"))(t))
	dir := withCertificate(t, "server.pem", "server-key.pem")
	for _, name := range []string{"server.pem", "server-key.pem"} {
		testkit.Contains(t, text, "\nLoadCredential="+name+":/etc/daybook/tls/"+name+"\n")
	}
	cmd := exec.Command(testkit.Must(daybooktest.Binary())(t), "config", "serve", "--toml", "--config", "systemd/daybook.toml")
	cmd.Env = os.Environ()
	for _, m := range regexp.MustCompile(`(?m)^Environment=(\S+)$`).FindAllStringSubmatch(text, -1) {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(m[1], "%d", dir))
	}
	got := must(t, cmd)
	for _, want := range []string{"listen = '0.0.0.0:1717'", "tls-cert = '" + dir + "/server.pem'", "tls-key = '" + dir + "/server-key.pem'", "admin-key-file = '/var/lib/daybook/admin.key'"} {
		testkit.Contains(t, got, want)
	}
	testkit.Contains(t, string(testkit.Must(os.ReadFile("systemd/daybook.service"))(t)), "\nStateDirectory=daybook\n", "--data /var/lib/daybook\n")
}
