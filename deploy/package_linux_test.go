package deploy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// dynamicUser is the user and group of a started server, a number such as systemd chooses for DynamicUser=.
const dynamicUser = 61184

// service is a process started according to its unit, in the root of another system.
type service struct {
	*exec.Cmd
	root  string
	unit  unit
	bus   *net.UnixConn // NOTIFY_SOCKET
	log   bytes.Buffer
	ended chan error
}

// startService starts daybook.service as systemd does, except for the sandbox: it sets up the environment files, the
// state directory, the user, the notification socket and the watchdog.
func startService(t *testing.T, root string, watchdog time.Duration) *service {
	t.Helper()
	s := &service{root: root, unit: readUnit(t, filepath.Join(root, "usr/lib/systemd/system/daybook.service")), ended: make(chan error, 1)}
	line := words(t, s.unit.one(t, "ExecStart"))
	environment := []string{"PATH=/usr/bin:/bin", "NOTIFY_SOCKET=/run/notify", fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds())}
	for _, file := range s.unit["EnvironmentFile"] {
		text, err := os.ReadFile(filepath.Join(root, strings.TrimPrefix(file, "-")))
		if errors.Is(err, os.ErrNotExist) && strings.HasPrefix(file, "-") {
			continue
		}
		testkit.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				environment = append(environment, line)
			}
		}
	}
	state := filepath.Join(root, "var/lib", s.unit.one(t, "StateDirectory"))
	testkit.NoError(t, errors.Join(os.MkdirAll(state, 0o700), os.Chown(state, dynamicUser, dynamicUser)))
	socket := filepath.Join(root, "run/notify")
	_ = os.Remove(socket) // left over from the last start
	s.bus = testkit.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}))(t)
	testkit.NoError(t, os.Chmod(socket, 0o777))
	s.Cmd = &exec.Cmd{Path: line[0], Args: line, Env: environment, Dir: "/", Stderr: &s.log, Stdout: &s.log,
		SysProcAttr: &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: dynamicUser, Gid: dynamicUser}}}
	testkit.NoError(t, s.Start())
	go func() { s.ended <- s.Wait() }()
	t.Cleanup(func() {
		_ = s.Process.Kill() // fails if it has ended
		s.ended <- <-s.ended
		s.bus.Close()
	})
	return s
}

// await reads notifications until one contains the wanted line. It returns all lines since the last await.
func (s *service) await(t *testing.T, want string) (got []string) {
	t.Helper()
	b := make([]byte, 4096)
	for {
		testkit.NoError(t, s.bus.SetReadDeadline(time.Now().Add(60*time.Second)))
		n, err := s.bus.Read(b)
		testkit.NoError(t, err, want, "was not sent, but", got, &s.log)
		lines := strings.Split(string(b[:n]), "\n")
		if got = append(got, lines...); slices.Contains(lines, want) {
			return got
		}
	}
}

// exit waits until the process has ended and returns its exit code.
func (s *service) exit(t *testing.T) int {
	t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
	case <-time.After(60 * time.Second):
		t.Fatal("the process does not end")
	}
	return s.ProcessState.ExitCode()
}

// request sends a request to the server. It reads the address from the server's data directory.
func (s *service) request(t *testing.T, method, path, body string) string {
	t.Helper()
	address := testkit.Must(os.ReadFile(filepath.Join(s.root, "var/lib/daybook/address")))(t)
	req := testkit.Must(http.NewRequest(method, "http://"+strings.TrimSpace(string(address))+path, strings.NewReader(body)))(t)
	req.Header.Set("Content-Type", "application/json")
	resp := testkit.Must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(t)
	testkit.MustHold(t, resp.StatusCode < 300, method, path, resp.StatusCode, text)
	return string(text)
}

// installer installs, upgrades and removes a package in another root.
type installer struct {
	install, remove func(t *testing.T, root string)
	about           func(t *testing.T) *exec.Cmd // prints the maintainer and the homepage of the package
}

func installers(t *testing.T) map[string]installer {
	deb, rpm := released(t, "*.deb"), released(t, "*.rpm")
	dpkg := func(t *testing.T, args ...string) {
		t.Helper()
		must(t, exec.Command(needs(t, "dpkg"), append([]string{"--force-not-root", "--force-depends", "--log=/dev/null"}, args...)...))
	}
	yum := func(t *testing.T, args ...string) {
		t.Helper()
		must(t, exec.Command(needs(t, "rpm"), append([]string{"--dbpath", "/var/lib/rpm", "--nodeps", "--nosignature"}, args...)...))
	}
	return map[string]installer{
		"deb": {
			func(t *testing.T, root string) { dpkg(t, "--root="+root, "-i", deb) },
			func(t *testing.T, root string) { dpkg(t, "--root="+root, "--purge", "daybook") },
			func(t *testing.T) *exec.Cmd {
				return exec.Command(needs(t, "dpkg-deb"), "-f", deb, "Maintainer", "Homepage")
			},
		},
		"rpm": {
			func(t *testing.T, root string) { yum(t, "--root", root, "-U", "--force", rpm) },
			func(t *testing.T, root string) { yum(t, "--root", root, "-e", "daybook") },
			func(t *testing.T) *exec.Cmd {
				return exec.Command(needs(t, "rpm"), "-qp", "--nosignature", "--queryformat", "%{PACKAGER} %{URL}", rpm)
			},
		},
	}
}

// readText reads a file, and decompresses it if necessary.
func readText(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(r)
	return string(text), err
}

// TestPackages: after an installation on a system without data, the first start of the unit creates a queue and becomes
// ready. Later starts require the data, even after an upgrade. Removing the package keeps the data.
func TestPackages(t *testing.T) {
	for kind, with := range installers(t) {
		t.Run(kind, func(t *testing.T) {
			root := newRoot(t)
			with.install(t, root)
			in := func(path string) string { return filepath.Join(root, path) }
			for _, path := range []string{"/usr/bin/daybook", "/usr/lib/systemd/system/daybook-work.service", "/etc/daybook/work.toml", "/usr/share/doc/daybook/licenses.txt", "/usr/share/doc/daybook/copyright"} {
				testkit.Holds(t, exists(in(path)), path, "is not installed")
			}
			zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[kind]
			for path, want := range map[string]string{
				"/usr/share/man/man1/daybook.1.gz":                  "a durable job queue",
				"/usr/share/man/man1/daybook-add.1.gz":              "daybook-add - Post the lines of a file as jobs",
				"/usr/share/bash-completion/completions/daybook":    "complete ",
				"/usr/share/zsh/" + zsh + "/_daybook":               "#compdef daybook",
				"/usr/share/fish/vendor_completions.d/daybook.fish": "complete -c daybook",
			} {
				testkit.Holds(t, strings.Contains(testkit.Must(readText(in(path)))(t), want), path, "does not have", want)
			}
			if text, err := with.about(t).Output(); err != nil || !strings.Contains(string(text), "The Daybook authors <") || !strings.Contains(string(text), "https://github.com/daybookq/daybook") {
				t.Errorf("the package says of itself: %s, %v", text, err)
			}
			info := testkit.Must(os.Stat(in("/usr/share/man/man1")))(t)
			testkit.Equal(t, info.Mode().Perm(), 0o755, "the directory of manual pages:", info)
			first := in("/var/lib/daybook-first-start")
			testkit.MustEqual(t, string(testkit.Must(os.ReadFile(first))(t)), "DAYBOOK_INIT=true\n", first)
			// An operator sets a free port.
			testkit.NoError(t, os.WriteFile(in("/etc/default/daybook"), []byte("DAYBOOK_LISTEN=127.0.0.1:0\n"), 0o644))

			s := startService(t, root, 300*time.Millisecond)
			before := s.await(t, "READY=1")
			testkit.Holds(t, strings.HasPrefix(before[0], "STATUS="), "notifications before the readiness", before)
			s.await(t, "WATCHDOG=1")
			s.await(t, "WATCHDOG=1")
			s.request(t, "POST", "/jobs/create", `{"type":"square","payload":"7"}`)
			testkit.Contains(t, s.request(t, "GET", "/readyz", ""), "ready")
			post := words(t, s.unit.one(t, "ExecStartPost"))
			cleanup := &exec.Cmd{Path: strings.TrimPrefix(post[0], "+"), Args: post, Dir: "/", SysProcAttr: &syscall.SysProcAttr{Chroot: root}}
			err := cleanup.Run()
			testkit.Holds(t, err == nil && !exists(first), first, "is still there", err)
			testkit.NoError(t, s.Process.Signal(syscall.SIGTERM))
			s.await(t, "STOPPING=1")
			testkit.Equal(t, s.exit(t), 0, "exit code", &s.log)

			with.install(t, root) // again, which is an upgrade
			testkit.Holds(t, !exists(first), "an upgrade makes", first)
			s = startService(t, root, time.Minute)
			s.await(t, "READY=1")
			testkit.Contains(t, s.request(t, "GET", "/stats", ""), `"pending":1`)
			testkit.NoError(t, s.Process.Signal(syscall.SIGTERM))
			testkit.Equal(t, s.exit(t), 0, "exit code", &s.log)

			// The disk is not mounted: the state directory exists but is empty.
			testkit.NoError(t, os.Rename(in("/var/lib/daybook"), in("/var/lib/kept")))
			s = startService(t, root, time.Minute)
			code := s.exit(t)
			if !slices.Contains(strings.Fields(s.unit.one(t, "RestartPreventExitStatus")), strconv.Itoa(code)) || !strings.Contains(s.log.String(), "--init") || exists(in("/var/lib/daybook/journal")) {
				t.Errorf("without its data the server ends with %d: %s", code, s.log.String())
			}
			testkit.NoError(t, errors.Join(os.Remove(in("/var/lib/daybook")), os.Rename(in("/var/lib/kept"), in("/var/lib/daybook"))))

			with.remove(t, root)
			testkit.Holds(t, !exists(in("/usr/bin/daybook")) &&
				exists(in("/var/lib/daybook/journal")), "a removal leaves the program, or removes the data")
			with.install(t, root)
			testkit.Holds(t, !exists(first), "an installation beside old data makes", first)
		})
	}
}

// TestReadUnit: readUnit parses the units correctly.
func TestReadUnit(t *testing.T) {
	u := readUnit(t, "systemd/daybook.service")
	got := words(t, u.one(t, "ExecStart"))
	testkit.Holds(t, got[0] == "/usr/bin/daybook" && got[1] == "serve" && slices.Contains(got, "/var/lib/daybook"), got)
	f := testkit.Must(os.Open("systemd/default-daybook"))(t)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		testkit.Holds(t, strings.HasPrefix(lines.Text(), "#"), "the packaged environment sets", lines.Text())
	}
}
