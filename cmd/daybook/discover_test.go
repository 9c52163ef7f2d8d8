package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/mdns"
)

// network is two network namespaces with a cable between them, like two machines on one switch.
type network struct {
	server, browser string // names of the namespaces
}

const (
	serverLink, browserLink = "dbserver", "dbbrowser"
	serverIPv4, serverIPv6  = "10.77.0.1", "fd77::1"
)

func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("skipped: there is no `ip` command; Debian's package is iproute2")
	}
	id := rand.Text()
	n := &network{"daybook-a-" + id, "daybook-b-" + id}
	for _, name := range []string{n.server, n.browser} {
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			t.Skipf("skipped: this machine has no network namespaces: %v: %s", err, out)
		}
		t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	}
	run := func(line string) {
		t.Helper()
		args := strings.Fields(line)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		testkit.NoError(t, err, line, out)
	}
	run(fmt.Sprintf("ip link add %s netns %s type veth peer name %s netns %s", serverLink, n.server, browserLink, n.browser))
	for i, at := range []struct{ namespace, link string }{{n.server, serverLink}, {n.browser, browserLink}} {
		run(fmt.Sprintf("ip -n %s link set lo up", at.namespace))
		run(fmt.Sprintf("ip -n %s addr add 10.77.0.%d/24 dev %s", at.namespace, i+1, at.link))
		run(fmt.Sprintf("ip -n %s addr add fd77::%d/64 dev %s nodad", at.namespace, i+1, at.link))
		run(fmt.Sprintf("ip -n %s link set %s up", at.namespace, at.link))
		run(fmt.Sprintf("ip -n %s route add 224.0.0.0/4 dev %s", at.namespace, at.link)) // on a real machine, the default route covers this
	}
	return n
}

// in returns a command that runs in a namespace.
func in(ctx context.Context, namespace string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", namespace}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// browse runs this program in the namespace of the browser.
func (n *network) browse(t *testing.T, args ...string) result {
	t.Helper()
	cmd := in(t.Context(), n.browser, append([]string{os.Args[0]}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String(), strings.Join(args, " ")}
}

// background runs a command until the test ends.
func background(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	testkit.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
}

// serve starts a server in the server's namespace and returns its port and its id.
func (n *network) serve(t *testing.T, args ...string) (port, id string) {
	t.Helper()
	args = append([]string{os.Args[0], "serve", "--data", t.TempDir(), "--init", "--insecure"}, args...)
	cmd := in(context.Background(), n.server, args...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out := testkit.Must(cmd.StdoutPipe())(t)
	background(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	testkit.NoError(t, err, "the server does not start", &log)
	line = strings.TrimSpace(line)
	at := strings.Replace(strings.TrimPrefix(line, "listening on http://"), "[::]", "127.0.0.1", 1)
	port = at[strings.LastIndexByte(at, ':')+1:]
	var stats struct{ Journal struct{ UUID string } }
	text, err := in(t.Context(), n.server, os.Args[0], "stats", "--json", "--server", at).Output()
	if err == nil {
		err = json.Unmarshal(text, &stats)
	}
	testkit.NoError(t, err)
	return port, stats.Journal.UUID
}

// TestDiscover: this program and other programs find a server on another machine.
func TestDiscover(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.browse(t, "discover", "--timeout", "500ms").ends(t, terminal.ExitNoAnswer, "no server answered") // without a server
	port, id := n.serve(t, "--listen", "[::]:0")
	t.Run("by daybook discover", func(t *testing.T) {
		r := n.browse(t, "discover", "--json", "--interface", browserLink)
		found := parsed[mdns.Found](t, r.out)
		addresses := regexp.MustCompile(fmt.Sprintf(`^\[%s:%s \[%s\]:%s \[fe80::[0-9a-f:]+%%%s\]:%s\]$`, serverIPv4, port, serverIPv6, port, browserLink, port))
		testkit.Holds(t, found.ID == id && found.URL == "http://"+serverIPv4+":"+port && found.Version == version &&
			found.Path == "/" && addresses.MatchString(fmt.Sprint(found.Addresses)), found)
		testkit.Contains(t, n.browse(t, "discover").out, id)
	})
	t.Run("by --server mdns:", func(t *testing.T) {
		for _, server := range []string{"mdns:", "mdns:" + strings.ToUpper(id)} {
			n.browse(t, "stats", "--json", "--server", server).ends(t, terminal.ExitOK).prints(t, id)
		}
		r := n.browse(t, "stats", "--server", "mdns:other")
		testkit.Holds(t, r.code != terminal.ExitOK && strings.Contains(r.errs, "none of the 1 servers"), r)
	})
	t.Run("by avahi-browse", func(t *testing.T) { n.avahi(t, id, port) })
	t.Run("by python-zeroconf", func(t *testing.T) { n.zeroconf(t, id, port) })
	t.Run("if several servers answer, one must be named", func(t *testing.T) {
		_, other := n.serve(t, "--listen", serverIPv4+":0")
		n.browse(t, "stats", "--server", "mdns:").ends(t, terminal.ExitUsage, id, other)
		n.browse(t, "stats", "--json", "--server", "mdns:"+other).ends(t, terminal.ExitOK).prints(t, other)
	})
}

// ip runs ip(8) in a namespace.
func (n *network) ip(t *testing.T, namespace, line string) {
	t.Helper()
	out, err := exec.Command("ip", append([]string{"-n", namespace}, strings.Fields(line)...)...).CombinedOutput()
	testkit.NoError(t, err, "ip", line, out)
}

// TestAnnouncedLater: a server that is started before its network is up is found once the network is up, and again on
// another interface with another address. All addresses that answer are listed.
func TestAnnouncedLater(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.ip(t, n.server, "link set "+serverLink+" down")
	n.ip(t, n.server, "addr flush dev "+serverLink)
	port, id := n.serve(t, "--listen", "0.0.0.0:0")
	find := func(addresses ...string) {
		t.Helper()
		for i, a := range addresses {
			addresses[i] = a + ":" + port
		}
		testkit.Eventually(t, fmt.Sprintf("the server is found at %v", addresses), func() bool {
			var found mdns.Found
			r := n.browse(t, "discover", "--json", "--timeout", "1s")
			if json.Unmarshal([]byte(r.out), &found) != nil || found.ID != id {
				return false
			}
			return slices.Equal(found.Addresses, addresses)
		})
	}
	n.ip(t, n.server, "addr add "+serverIPv4+"/24 dev "+serverLink)
	n.ip(t, n.server, "link set "+serverLink+" up")
	n.ip(t, n.server, "route add 224.0.0.0/4 dev "+serverLink)
	find(serverIPv4)
	n.ip(t, n.server, "link add dbsecond type veth peer name dbother netns "+n.browser)
	n.ip(t, n.server, "addr add 10.77.1.1/24 dev dbsecond")
	n.ip(t, n.server, "link set dbsecond up")
	n.ip(t, n.browser, "addr add 10.77.1.2/24 dev dbother")
	n.ip(t, n.browser, "link set dbother up")
	find(serverIPv4, "10.77.1.1")
	n.ip(t, n.server, "link del dbsecond")
	n.ip(t, n.server, "addr del "+serverIPv4+"/24 dev "+serverLink)
	n.ip(t, n.server, "addr add 10.77.0.9/24 dev "+serverLink)
	find("10.77.0.9")
}

// TestNotAnnounced: a server that must not be found is not found. --mdns on is an error if nothing can be announced.
func TestNotAnnounced(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.serve(t, "--listen", "0.0.0.0:0", "--mdns", "off")
	n.serve(t, "--listen", "127.0.0.1:0")
	testkit.Equal(t, n.browse(t, "discover", "--json", "--timeout", "1s").ends(t, terminal.ExitNoAnswer).out, "")
	for _, args := range [][]string{
		{"--listen", "127.0.0.1:0", "--mdns", "on"},
		{"--listen", "0.0.0.0:0", "--mdns", "on", "--mdns-interface", "nothere0"},
		{"--listen", "0.0.0.0:0", "--mdns", "on", "--mdns-interface", "lo"},
		{"--listen", "0.0.0.0:0", "--mdns", "maybe"},
	} {
		cmd := in(t.Context(), n.server, append([]string{os.Args[0], "serve", "--data", t.TempDir(), "--init", "--insecure"}, args...)...)
		out, err := cmd.CombinedOutput()
		testkit.Holds(t, err != nil &&
			(strings.Contains(string(out), "mdns") || strings.Contains(string(out), "interface")), args, err, out)
	}
}

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/></policy></busconfig>`

// avahi looks for the server with avahi-browse, which queries an avahi-daemon through a message bus. The test starts
// both with separate directories.
func (n *network) avahi(t *testing.T, id, port string) {
	for _, program := range []string{"avahi-browse", "avahi-daemon", "dbus-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: there is no %s; Debian's packages are avahi-daemon, avahi-utils and dbus", program)
		}
	}
	dir := testkit.Must(os.MkdirTemp("", "daybook-avahi-"))(t) // the path of a socket must be short
	t.Cleanup(func() { os.RemoveAll(dir) })
	bus := filepath.Join(dir, "bus")
	files := map[string]string{
		"bus.conf": fmt.Sprintf(busConfig, bus),
		"avahi.conf": "[server]\nuse-ipv4=yes\nuse-ipv6=yes\nallow-interfaces=" + browserLink +
			"\nenable-dbus=yes\n[publish]\ndisable-publishing=yes\n",
	}
	for name, text := range files {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	on := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := in(ctx, n.browser, args...)
		cmd.Env = append(cmd.Env, "DBUS_SYSTEM_BUS_ADDRESS=unix:path="+bus)
		return cmd
	}
	background(t, on(context.Background(), "dbus-daemon", "--config-file="+filepath.Join(dir, "bus.conf"), "--nofork", "--nopidfile"))
	testkit.Eventually(t, "there is a bus", func() bool { _, err := os.Stat(bus); return err == nil })
	background(t, on(context.Background(), "avahi-daemon", "-f", filepath.Join(dir, "avahi.conf"), "--no-drop-root", "--no-chroot", "--no-rlimits"))
	for _, service := range []string{"_daybook._tcp", "_serval_queue._tcp", "_serval:queue._tcp"} {
		want := regexp.MustCompile(`(?m)^=;` + browserLink + `;IPv4;` + id + `;.*;` + regexp.QuoteMeta(serverIPv4) + `;` + port + `;.*"http_port=` + port + `"`)
		var out []byte
		testkit.Eventually(t, "avahi-browse finds "+service, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			out, _ = on(ctx, "avahi-browse", "--resolve", "--terminate", "--parsable", service).CombinedOutput() // an error means not yet
			return want.Match(out)
		})
		for _, field := range []string{`"path=/"`, `"version=` + version + `"`, "_serval"} {
			testkit.Holds(t, bytes.Contains(out, []byte(field)) || field == "_serval" &&
				service == "_daybook._tcp", service, "no", field, "in", out)
		}
	}
}

const zeroconfProgram = `
import json, sys, threading
from zeroconf import ServiceBrowser, ServiceListener, Zeroconf
found, done = {}, threading.Event()
class Listener(ServiceListener):
    def add_service(self, z, kind, name):
        info = z.get_service_info(kind, name, 10000)
        if info:
            found[kind] = {"name": name, "port": info.port, "addresses": info.parsed_addresses(),
                           "txt": {k.decode(): v.decode() for k, v in info.properties.items()}}
        if len(found) == len(sys.argv) - 1:
            done.set()
    def update_service(self, z, kind, name): pass
    def remove_service(self, z, kind, name): pass
z = Zeroconf()
browsers = [ServiceBrowser(z, kind, Listener()) for kind in sys.argv[1:]]
done.wait(60)
z.close()
print(json.dumps(found))
`

// pythonWithZeroconf returns the path of a Python that has the zeroconf package.
func pythonWithZeroconf(t *testing.T) string {
	t.Helper()
	python := testkit.Must(filepath.Abs("../../bin/python/bin/python"))(t)
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import zeroconf").CombinedOutput(); err != nil {
		t.Skipf("skipped: there is no zeroconf package for Python; `scripts/tools` installs it: %v: %s", err, out)
	}
	return python
}

// TestExchangeOfQueueyQueue: a program that was written for queuey-queue finds the server by multicast DNS. Its job is
// done by `daybook work`, or by the program.
func TestExchangeOfQueueyQueue(t *testing.T) {
	n := newNetwork(t)
	python := pythonWithZeroconf(t)
	n.serve(t, "--listen", "[::]:0")
	var log bytes.Buffer // of daybook work
	exchange := func(role string) (done struct {
		Status, Output string
		RunnerID       string `json:"runner_id"`
	}) {
		t.Helper()
		cmd := in(t.Context(), n.browser, python, "testdata/queuey_exchange.py", role, "../../runner/wasi/testdata/tiny.wasm")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &done)
		}
		testkit.NoError(t, err, role, out, &errs, &log)
		return done
	}
	done := exchange("RUNNER")
	testkit.Holds(t, done.Status == "completed" && done.Output == "THE INPUT FOR RUNNER", "by a runner of its own", done)
	work := in(context.Background(), n.browser, os.Args[0], "work", "--server", "mdns:", "--id", "found-it", "--cache", t.TempDir())
	work.Stderr = &log
	background(t, work)
	if done := exchange("SUBMITTER"); done.Status != "completed" || done.Output != "THE INPUT FOR SUBMITTER" || done.RunnerID != "found-it" {
		t.Errorf("by daybook work: %+v\n%s", done, &log)
	}
}

// zeroconf looks for the server with python-zeroconf. It refuses to look for a service with a colon in its name.
func (n *network) zeroconf(t *testing.T, id, port string) {
	python := pythonWithZeroconf(t)
	out, err := in(t.Context(), n.browser, python, "-c", zeroconfProgram, mdns.Service+".local.", "_serval_queue._tcp.local.").Output()
	testkit.NoError(t, err, out)
	var found map[string]struct {
		Name      string
		Port      int
		Addresses []string
		Txt       map[string]string
	}
	testkit.NoError(t, json.Unmarshal(out, &found), out)
	for _, service := range []string{mdns.Service, "_serval_queue._tcp"} {
		f := found[service+".local."]
		addresses := strings.Join(f.Addresses, " ")
		testkit.Holds(t, f.Name == id+"."+service+".local." && fmt.Sprint(f.Port) == port && f.Txt["http_port"] == port && f.Txt["path"] == "/" &&
			f.Txt["version"] == version && strings.Contains(addresses, serverIPv4) && strings.Contains(addresses, serverIPv6), service, f)
	}
}
