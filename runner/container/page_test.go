//go:build unix

package container_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/runner/container"
)

// TestPageOfContainers runs the commands on docs/reference/containers.md with Docker and an image of the machine's
// busybox.
func TestPageOfContainers(t *testing.T) {
	testkit.Need(t, "bash", "curl", "jq", "tar", "docker")
	host, err := container.EngineOf("docker")
	if err != nil {
		t.Skipf("docker cannot be used: %v", err)
	}
	loadBusybox(t, host, "docker.io/library/busybox:1.36")
	server := daybooktest.Start(t)
	binary := testkit.Must(daybooktest.Binary())(t)
	page := testkit.Must(os.ReadFile("../../docs/reference/containers.md"))(t)
	blocks := regexp.MustCompile("(?s)TestPageOfContainers -->\n\n```\\w+\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	testkit.MustEqual(t, len(blocks), 6, "the page", "blocks")
	bin := t.TempDir()
	testkit.NoError(t, os.Symlink(binary, filepath.Join(bin, "daybook")))
	// The last block removes the containers of a killed runner.
	script := "set -euo pipefail\ncurl() { command curl -sS --fail-with-body \"$@\"; }\n"
	for i, b := range blocks {
		if i == len(blocks)-1 {
			script += "docker create --label daybook.workspaces=w busybox:1.36 true > left.txt\n"
		}
		script += regexp.MustCompile(`(?m)^\$ `).ReplaceAllString(strings.ReplaceAll(b[1], "http://127.0.0.1:1717", server.URL), "")
	}
	script += "test -z \"$(docker ps -aq --filter label=daybook.workspaces=w)\"\n"
	shell := exec.CommandContext(t.Context(), "bash")
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+t.TempDir(), "DOCKER_HOST="+host, "DAYBOOK_SERVER="+server.URL)
	shell.Stdin = strings.NewReader(script)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &out
	shell.WaitDelay = time.Second
	testkit.NoError(t, shell.Start())
	late := time.AfterFunc(time.Minute, func() { testkit.KillGroup(shell) })
	state, err := shell.Process.Wait()
	late.Stop()
	syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) // the runners that it started
	shell.Wait()
	testkit.MustHold(t, err == nil && state.Success(), state, err, out.String())
	sums := testkit.Must(os.ReadFile(filepath.Join(shell.Dir, "result", "sums.txt")))(t)
	testkit.Holds(t, strings.Contains(string(sums), "data/a.dat"), "the job has left", string(sums), out.String())
}

// loadBusybox imports an image with nothing but the machine's busybox, which must be statically linked.
func loadBusybox(t *testing.T, host, image string) {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Skipf("the image of the page needs busybox (scripts/tools installs it on Debian): %v", err)
	}
	program, err := elf.Open(path)
	if err != nil {
		t.Skipf("the image of the page needs a busybox for Linux: %v", err)
	}
	defer program.Close()
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skipf("the image of the page needs a busybox without libraries (busybox-static), and %s has some", path)
	}
	text := testkit.Must(os.ReadFile(path))(t)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	entries := []tar.Header{{Name: "bin/busybox", Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}}
	for _, name := range []string{"sh", "wc", "tee", "true"} {
		entries = append(entries, tar.Header{Name: "bin/" + name, Linkname: "busybox", Mode: 0o777, Typeflag: tar.TypeSymlink})
	}
	for _, h := range entries {
		testkit.NoError(t, w.WriteHeader(&h))
		if h.Size > 0 {
			testkit.Must(w.Write(text))(t)
		}
	}
	testkit.NoError(t, w.Close())
	docker := testkit.Must(client.New(client.WithHost(host)))(t)
	defer docker.Close()
	loading, err := docker.ImageImport(t.Context(), client.ImageImportSource{Source: &b, SourceName: "-"}, image, client.ImageImportOptions{Changes: []string{`CMD ["sh"]`, "ENV PATH=/bin"}})
	testkit.NoError(t, err)
	defer loading.Close()
	answer := testkit.Must(io.ReadAll(loading))(t)
	testkit.MustHold(t, !bytes.Contains(answer, []byte("errorDetail")), "import the image", string(answer))
}
