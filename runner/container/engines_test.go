package container

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/container/enginetest"
)

// guestImage contains only the program testdata/guest and a volume.
const guestImage = "docker.io/library/daybook-guest:1"

// volumesImage is guestImage with volumes in the workspace.
const volumesImage = "docker.io/library/daybook-guest:volumes"

// realEngine is an engine that the tests have started, with its own directories.
type realEngine struct {
	name, host string
	user       int // the user that runs it
	process    *exec.Cmd
	dir        string
	log        *os.File
	gone       chan struct{}
}

// realEngines are the engines for tests. The first test that needs an engine starts it. TestMain stops them.
var realEngines = map[string]func() (*realEngine, error){
	"docker": sync.OnceValues(func() (*realEngine, error) {
		return startEngine("docker", "dockerd", 0, func(dir string) []string {
			return []string{"--bridge=none", "--iptables=false", "--ip6tables=false", "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
				"--pidfile", filepath.Join(dir, "pid"), "--host", "unix://" + filepath.Join(dir, "sock"), "--config-file", filepath.Join(dir, "daemon.json"), "--log-level", "error"}
		})
	}),
	"podman":   sync.OnceValues(func() (*realEngine, error) { return startEngine("podman", "podman", 0, podmanArguments) }),
	"rootless": sync.OnceValues(func() (*realEngine, error) { return startEngine("rootless", "podman", nobody, podmanArguments) }),
}

// nobody is a user that exists on every machine.
const nobody = 65534

func podmanArguments(dir string) []string {
	return []string{"--root", filepath.Join(dir, "data"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "tmp"), "--cgroup-manager", "cgroupfs",
		"--events-backend", "file", "system", "service", "--time", "0", "unix://" + filepath.Join(dir, "sock")}
}

var (
	startedMu sync.Mutex
	started   []*realEngine
)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, e := range started {
		if err := e.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// startEngine starts an engine and loads the guest's image.
func startEngine(name, program string, user int, args func(dir string) []string) (e *realEngine, err error) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return nil, errors.New("it needs Linux, and root")
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("it is not installed: %w (scripts/tools installs it on Debian)", err)
	}
	dir, err := os.MkdirTemp("", "daybook-"+name+"-")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, user, user)); err != nil {
		return nil, err
	}
	e = &realEngine{name: name, host: "unix://" + filepath.Join(dir, "sock"), user: user, dir: dir, gone: make(chan struct{})}
	if e.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}"), 0o600); err != nil { // do not use the machine's configuration
		return nil, err
	}
	e.process = exec.Command(path, args(dir)...)
	e.process.Dir = dir
	e.process.Stdout, e.process.Stderr = e.log, e.log
	e.process.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DOCKER_") || strings.HasPrefix(v, "CONTAINER_") })
	e.process.SysProcAttr = ownGroup()
	if user != 0 {
		e.process.SysProcAttr = asUser(user)
		e.process.Env = append(e.process.Env, "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "TMPDIR="+dir)
	}
	if err := e.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		e.process.Wait() // its log shows how it ended
		close(e.gone)
	}()
	startedMu.Lock()
	started = append(started, e)
	startedMu.Unlock()
	docker, err := client.New(client.WithHost(e.host))
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for {
		if _, err = docker.Ping(ctx, client.PingOptions{}); err == nil {
			break
		}
		select {
		case <-e.gone:
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
			continue
		}
		text, _ := os.ReadFile(e.log.Name())
		return nil, fmt.Errorf("%s does not start: %w\n%s", program, err, text[max(0, len(text)-2000):])
	}
	return e, e.load(ctx, docker)
}

// load builds the guest, and imports it as an image.
func (e *realEngine) load(ctx context.Context, docker *client.Client) error {
	binary := filepath.Join(e.dir, "guest")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./testdata/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the guest: %w\n%s", err, out)
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Name: "etc/", Mode: 0o777, Typeflag: tar.TypeDir}, {Name: "guest", Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}} {
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		if h.Size > 0 {
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	for name, volumes := range map[string]string{guestImage: "/volume", volumesImage: "/other /workspace/kept /workspace/in/deep/ /workspace"} {
		changes := []string{`ENTRYPOINT ["/guest"]`, "USER 0"}
		for _, v := range strings.Fields(volumes) {
			changes = append(changes, "VOLUME "+v)
		}
		loading, err := docker.ImageImport(ctx, client.ImageImportSource{Source: bytes.NewReader(b.Bytes()), SourceName: "-"}, name, client.ImageImportOptions{Changes: changes})
		if err != nil {
			return fmt.Errorf("import the image: %w", err)
		}
		answer, err := io.ReadAll(io.LimitReader(loading, 1<<20))
		loading.Close()
		if err != nil || bytes.Contains(answer, []byte("errorDetail")) {
			return fmt.Errorf("import the image: %w: %s", err, answer)
		}
		if _, err := docker.ImageInspect(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (e *realEngine) stop() error {
	if err := e.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-e.gone:
	case <-time.After(30 * time.Second):
		e.process.Process.Kill()
		<-e.gone
	}
	if e.user != 0 { // a rootless Podman starts itself again in its user namespace, and that process stays
		syscall.Kill(-e.process.Process.Pid, syscall.SIGKILL)
	}
	e.log.Close()
	if text, err := os.ReadFile(filepath.Join(e.dir, "tmp", "pause.pid")); err == nil && e.user != 0 { // it holds the user namespace
		if id, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && id > 1 {
			syscall.Kill(id, syscall.SIGKILL)
		}
	}
	if err := enginetest.Remove(e.dir); err != nil {
		return fmt.Errorf("remove the folders of %s: %w", e.name, err)
	}
	return nil
}

// rootlessHost is the environment variable with the address of a rootless engine, for the process that TestRootless
// starts as the engine's user.
const rootlessHost = "DAYBOOK_TEST_ROOTLESS"

// withEngines runs a test with each engine, and logs why an engine is skipped.
func withEngines(t *testing.T, test func(t *testing.T, e *realEngine)) {
	if host := os.Getenv(rootlessHost); host != "" {
		test(t, &realEngine{name: "rootless", host: host, user: os.Getuid()})
		return
	}
	for _, name := range []string{"docker", "podman"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := realEngines[name]()
			if err != nil {
				testkit.MustEqual(t, os.Getenv("TESTS_NEED_ENGINES"), "", name, "cannot be used", err)
				t.Skipf("%s cannot be used: %v", name, err)
			}
			test(t, e)
		})
	}
}

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
