package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/docs/check"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/runner/container/enginetest"
)

// engine is a container engine that the test has started, with its own directories.
type engine struct {
	line []string // its command, before the arguments
	env  []string
}

// startEngine starts dockerd, or prepares podman, which needs no daemon.
func startEngine(t *testing.T, name string) *engine {
	t.Helper()
	unusable := func(format string, args ...any) {
		t.Helper()
		if os.Getenv("TESTS_NEED_ENGINES") != "" {
			t.Fatalf(format, args...)
		}
		t.Skipf(format, args...)
	}
	if os.Getuid() != 0 {
		unusable("%s needs root", name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		unusable("%v (scripts/tools installs it on Debian)", err)
	}
	dir := testkit.Must(os.MkdirTemp("", "daybook-image-"))(t)
	t.Cleanup(func() { testkit.Check(t, enginetest.Remove(dir)) })
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DOCKER_") || strings.HasPrefix(v, "CONTAINER_") })
	if name == "podman" {
		return &engine{[]string{path, "--root", filepath.Join(dir, "data"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "tmp"), "--cgroup-manager", "cgroupfs", "--events-backend", "file"}, env}
	}
	log := testkit.Must(os.Create(filepath.Join(dir, "log")))(t)
	defer log.Close()
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}"), 0o600)) // do not use the machine's configuration
	host := "unix://" + filepath.Join(dir, "sock")
	daemon := exec.Command("dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--pidfile", filepath.Join(dir, "pid"), "--host", host, "--config-file", filepath.Join(dir, "daemon.json"), "--log-level", "error")
	daemon.Dir, daemon.Env, daemon.Stdout, daemon.Stderr = dir, env, log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := daemon.Start(); err != nil {
		unusable("dockerd: %v", err)
	}
	gone := make(chan struct{})
	go func() {
		_ = daemon.Wait() // its log shows how it ended
		close(gone)
	}()
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM) // fails if it has ended
		select {
		case <-gone:
		case <-time.After(30 * time.Second):
			_ = daemon.Process.Kill()
			<-gone
		}
	})
	e := &engine{[]string{path, "--host", host}, append(env, "DOCKER_BUILDKIT=0", "DOCKER_CONFIG="+dir)}
	testkit.Eventually(t, "dockerd answers", func() bool {
		if e.command("info").Run() == nil {
			return true
		}
		select {
		case <-gone:
			text, _ := os.ReadFile(log.Name())
			unusable("dockerd does not start: %s", text[max(0, len(text)-2000):])
		default:
		}
		return false
	})
	return e
}

func (e *engine) command(args ...string) *exec.Cmd {
	cmd := exec.Command(e.line[0], slices.Concat(e.line[1:], args)...)
	cmd.Env = e.env
	return cmd
}

// within returns an HTTP client that connects from within the network namespace of a process.
func within(pid int) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		type result struct {
			c   net.Conn
			err error
		}
		got := make(chan result)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
			f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
			if err != nil {
				got <- result{nil, err}
				return
			}
			defer f.Close()
			if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
				got <- result{nil, err}
				return
			}
			c, err := (&net.Dialer{}).DialContext(ctx, network, address) // of an IP address: this goroutine makes the socket
			got <- result{c, err}
		}()
		r := <-got
		return r.c, r.err
	}}}
}

// TestImage: engines can build the image from scratch. Its container runs as a non-root user on a read-only root file
// system, and is healthy. A job created in it is completed, and is still there after a restart. The container stops
// gracefully. The commands on docs/how-to/install.md run, except for the network.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	binary := os.Getenv("DAYBOOK_BINARY") // one that needs no C library, as make builds it
	if binary == "" {
		binary = filepath.Join(dir, "daybook")
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "./cmd/daybook")
		build.Dir, build.Env = root(t), append(os.Environ(), "CGO_ENABLED=0")
		must(t, build)
	}
	files := filepath.Join(dir, "context")
	prepare := exec.Command("deploy/docker/context.sh", binary, files)
	prepare.Dir = root(t)
	must(t, prepare)
	for _, name := range []string{"docker", "podman"} {
		t.Run(name, func(t *testing.T) {
			e := startEngine(t, name)
			args := []string{"build", "-t", "localhost/daybook:test", "-f", "docker/Dockerfile"}
			if name == "podman" {
				args = append(args, "--format", "docker") // the OCI format lacks health checks
			}
			must(t, e.command(append(args, files)...))
			t.Cleanup(func() { _ = e.command("rm", "-f", "queue").Run() }) // there may be none
			run := []string{"run", "-d", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--name", "queue", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "-v", "data:/data", "localhost/daybook:test"}
			must(t, e.command(run...))
			c := e.connect(t)

			var state struct{ Uid, Gid int }
			testkit.Must(fmt.Sscanf(e.inspect(t, "{{.Config.User}}"), "%d:%d", &state.Uid, &state.Gid))(t)
			testkit.Holds(t, state.Uid != 0, "the user is", state)
			e.healthy(t, name)
			created := e.command("exec", "-i", "queue", "/daybook", "add", "--type", "square")
			created.Stdin = strings.NewReader("7\n")
			must(t, created)
			claimed := testkit.Must(c.Claim(t.Context(), client.ClaimRequest{RunnerID: "test", Types: []string{"square"}, Max: 1}))(t)
			testkit.MustHold(t, claimed != nil && len(claimed.Jobs) == 1, claimed)
			j := claimed.Jobs[0]
			testkit.Must(c.Complete(t.Context(), j.ID, claimed.ID, client.Outcome{Output: []byte("49")}))(t)
			must(t, e.command("stop", "-t", "60", "queue"))
			if code := e.inspect(t, "{{.State.ExitCode}}"); code != "0" {
				t.Errorf("after a stop the exit code is %s: %s", code, must(t, e.command("logs", "queue")))
			}
			must(t, e.command("rm", "queue"))
			must(t, e.command(run...)) // a new container, with the data of the old one
			c = e.connect(t)
			got := testkit.Must(c.Job(t.Context(), j.ID))(t)
			testkit.Equal(t, string(got.Output), "49", "after a restart:", got)
			must(t, e.command("rm", "-f", "queue"))
			e.follow(t)
		})
	}
}

// follow runs the commands on docs/how-to/install.md. It changes the name of the image, and leaves out publishing a port,
// since the test's engines lack a network for that.
func (e *engine) follow(t *testing.T) {
	t.Helper()
	steps := testkit.Must(check.Steps(root(t), "docs/how-to/install.md", "deploy TestImage"))(t)
	testkit.MustEqual(t, len(steps), 1, "the page, blocks for this test")
	t.Cleanup(func() { _ = e.command("rm", "-f", "daybook").Run() }) // there may be none
	here := strings.NewReplacer("-p 127.0.0.1:1717:1717", "--network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024", "daybook:latest", "localhost/daybook:test")
	for line := range strings.Lines(steps[0].Command) {
		args := words(t, here.Replace(line))
		testkit.MustEqual(t, args[0], "docker", "the page says", line)
		testkit.Eventually(t, line, func() bool {
			out, err := e.command(args[1:]...).CombinedOutput()
			testkit.MustHold(t, err == nil || args[1] == "exec", line, err, out) // the server may not listen yet when exec runs in its container
			return err == nil
		})
	}
}

// connect returns a client of the server in the container once the server is ready.
func (e *engine) connect(t *testing.T) *client.Client {
	t.Helper()
	pid, err := strconv.Atoi(e.inspect(t, "{{.State.Pid}}"))
	if err != nil || pid == 0 {
		t.Fatalf("the container does not run: %v: %s", err, must(t, e.command("logs", "queue")))
	}
	c := client.New("http://127.0.0.1:1717", client.Options{HTTP: within(pid), RetryFor: -1})
	testkit.Eventually(t, "the server in the container is ready", func() bool { return c.Ready(t.Context()) == nil })
	return c
}

func (e *engine) inspect(t *testing.T, format string) string {
	t.Helper()
	return strings.TrimSpace(must(t, e.command("inspect", "--type", "container", "--format", format, "queue")))
}

// healthy waits until the image's health check succeeds. Docker runs the check automatically. With Podman, systemd or a
// user runs it.
func (e *engine) healthy(t *testing.T, name string) {
	t.Helper()
	if name == "podman" {
		testkit.Eventually(t, "the container is healthy", func() bool { return e.command("healthcheck", "run", "queue").Run() == nil })
		return
	}
	testkit.Eventually(t, "the container is healthy", func() bool { return e.inspect(t, "{{.State.Health.Status}}") == "healthy" })
}

// TestCompose: the compose file and its variant with TLS use only existing flags, and their settings take effect.
func TestCompose(t *testing.T) {
	for _, name := range []string{"compose.yaml", "compose.tls.yaml"} {
		composed(t, name)
	}
	if compose, err := exec.LookPath("docker-compose"); err == nil {
		must(t, exec.Command(compose, "-f", "compose.yaml", "config", "-q"))
		must(t, exec.Command(compose, "-f", "compose.yaml", "-f", "compose.tls.yaml", "config", "-q"))
	}
}

// composed checks the commands of a compose file. The server accepts the settings of its command.
func composed(t *testing.T, name string) {
	t.Helper()
	text := testkit.Must(os.ReadFile(name))(t)
	certificates := withCertificate(t, "server.pem", "server-key.pem")
	binary := testkit.Must(daybooktest.Binary())(t)
	found := 0
	for line := range strings.Lines(string(text)) {
		list, ok := strings.CutPrefix(strings.TrimSpace(line), "command: ")
		if !ok {
			continue
		}
		var args []string
		testkit.NoError(t, json.Unmarshal([]byte(list), &args), list)
		found++
		known := must(t, exec.Command(binary, args[0], "--help"))
		for _, flag := range args[1:] {
			if strings.HasPrefix(flag, "--") && !strings.Contains(known, " "+flag+" ") {
				t.Errorf("daybook %s has no flag %s", args[0], flag)
			}
		}
		if args[0] == "serve" {
			line := strings.ReplaceAll(strings.Join(args[1:], "\n"), "/tls/", certificates+"/")
			must(t, exec.Command(binary, append([]string{"config", "serve", "--toml", "--"}, strings.Split(line, "\n")...)...))
		}
	}
	testkit.Equal(t, found, 2, "commands of "+name)
}
