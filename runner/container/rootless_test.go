package container

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// rootlessTests run with a rootless engine. Tests of memory and processes are missing: without rights, an engine can
// limit these only if its user has cgroups of version 2.
var rootlessTests = []string{
	"TestRootlessRights", "TestNamespaces", "TestUnfiltered", "TestRun", "TestExitCodes", "TestTricks", "TestLargeWorkspace", "TestDeletedFiles", "TestEnd", "TestVolumes", "TestLeftOvers",
}

// TestRootless: Podman of an unprivileged user runs the jobs of a runner of the same user. Runners of other users are
// refused. The engine is started as docs/reference/containers.md describes, with its own directories.
func TestRootless(t *testing.T) {
	if os.Getenv(rootlessHost) != "" {
		t.Skip("it has started this process")
	}
	e, err := realEngines["rootless"]()
	if err != nil {
		t.Skipf("a rootless engine cannot be used: %v", err)
	}
	testkit.Fails(New(t.Context(), newServer().settings(t, e, nil)))(t,
		fmt.Sprintf("it belongs to the user %d, and the runner is the user 0", nobody))
	own := testkit.Must(os.Executable())(t)
	program := filepath.Join(e.dir, "container.test")
	from := testkit.Must(os.Open(own))(t)
	defer from.Close()
	to := testkit.Must(os.OpenFile(program, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755))(t)
	_, err = io.Copy(to, from)
	closed := to.Close()
	testkit.MustHold(t, err == nil && closed == nil, err, closed)
	// Each test of the list must exist and pass.
	child := exec.CommandContext(t.Context(), program, "-test.v", "-test.short", "-test.timeout=10m", "-test.run=^("+strings.Join(rootlessTests, "|")+")$")
	child.Dir, child.SysProcAttr = e.dir, asUser(nobody)
	child.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DOCKER_") || strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "TMPDIR=") || strings.HasPrefix(v, "GOCOVERDIR=")
	}), "HOME="+e.dir, "TMPDIR="+e.dir, rootlessHost+"="+e.host)
	text, err := child.CombinedOutput()
	testkit.Check(t, err, string(text))
	for _, name := range rootlessTests {
		testkit.Holds(t, strings.Contains(string(text), "--- PASS: "+name+" ("), name, "was not run, or has not passed")
	}
}

// TestRootlessRights: a container of a rootless engine runs as the runner's user, even if it seems to be root inside, and
// has the same rights as other containers. Missing reports the limits that the engine cannot enforce.
func TestRootlessRights(t *testing.T) {
	if os.Getenv(rootlessHost) == "" {
		t.Skip("TestRootless runs it, as another user")
	}
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		testkit.MustHold(t, r.engine.rootless && r.engine.podman, "rootless", r.engine.rootless, "Podman", r.engine.podman)
		end := r.run(t.Context(), guest("look"), "", handler.Options{})
		r.want(end, "ok", "")
		log := r.blobs[end.LogAddr]
		for _, line := range []string{
			"CapEff: 0000000000000000", "CapPrm: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2", "Uid: 0 0 0 0", "Gid: 0 0 0 0",
			"write /workspace/new: true", "write /tmp/new: true", "write /volume/new: true", "write /guest: false", "write /new: false", "write /etc/new: false", "write /sys/new: false",
		} {
			testkit.Holds(t, strings.Contains(log, line+"\n"), "the container has not", line)
		}
		if t.Failed() {
			t.Log(log)
		}
		r.want(r.run(t.Context(), guest("exit", "0")+`,"User":"1234"`, "", handler.Options{}), "failed", "containers of this runner have the user 0:0")
		info := testkit.Must(r.docker.Info(t.Context(), client.InfoOptions{}))(t)
		if missing := strings.Join(r.engine.Missing(), "; "); info.Info.CgroupVersion == "1" && (!strings.Contains(missing, "limit the memory") || !strings.Contains(missing, "limit the processes")) {
			t.Errorf("the engine lacks %q", missing)
		}
	})
}
