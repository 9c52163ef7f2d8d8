package sandbox

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestAsNobody runs the other tests as an unprivileged user.
func TestAsNobody(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	const nobody = 65534
	dir := testkit.Must(os.MkdirTemp("", "sandbox"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "sandbox.test")
	testkit.NoError(t, copyFile(binary))
	testkit.NoError(t, os.Chmod(dir, 0o755))
	tmp := filepath.Join(dir, "tmp")
	testkit.NoError(t, os.Mkdir(tmp, 0o700))
	testkit.NoError(t, os.Chown(tmp, nobody, nobody))
	cmd := exec.CommandContext(t.Context(), binary, "-test.v", "-test.short", "-test.timeout=5m")
	cmd.Dir, cmd.Env = tmp, append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestKillEndsTheTree/namespace") && !strings.Contains(string(out), "this machine has no namespace") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "--- SKIP") || strings.Contains(line, "this machine has no") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// copyFile copies the test binary to a place that other users can reach.
func copyFile(to string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	in, err := os.Open(exe)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}
