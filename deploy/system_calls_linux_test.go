package deploy_test

import (
	"bufio"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// allowedCalls returns the system calls that a unit's SystemCallFilter= allows.
func allowedCalls(t *testing.T, u unit) map[string]bool {
	t.Helper()
	sets := map[string][]string{}
	last := ""
	for line := range strings.Lines(must(t, exec.Command(needs(t, "systemd-analyze"), "syscall-filter", "--no-pager"))) {
		switch name := strings.TrimSpace(line); {
		case name == "" || strings.HasPrefix(name, "#"):
		case !strings.HasPrefix(line, " "):
			last = name
		default:
			sets[last] = append(sets[last], name)
		}
	}
	var members func(name string) []string
	members = func(name string) (all []string) {
		if !strings.HasPrefix(name, "@") {
			return []string{name}
		}
		testkit.MustHold(t, len(sets[name]) != 0, "there is no set", name)
		for _, n := range sets[name] {
			all = append(all, members(n)...)
		}
		return all
	}
	allowed := map[string]bool{}
	for _, line := range u["SystemCallFilter"] {
		rest, removes := strings.CutPrefix(line, "~")
		for _, name := range strings.Fields(rest) {
			for _, call := range members(name) {
				if removes {
					delete(allowed, call)
				} else {
					allowed[call] = true
				}
			}
		}
	}
	return allowed
}

// TestSystemCalls: the server uses only system calls that its unit allows, and no memory that is both written and
// executed.
func TestSystemCalls(t *testing.T) {
	strace := needs(t, "strace")
	allowed := allowedCalls(t, readUnit(t, "systemd/daybook.service"))
	testkit.MustHold(t, allowed["fdatasync"] && !allowed["mount"] && !allowed["setpriority"] && len(allowed) >= 200, "allowed", allowed)
	binary := testkit.Must(daybooktest.Binary())(t)
	calls := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command(strace, "-f", "-qq", "-o", calls, binary, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--init", "--listen", "127.0.0.1:0")
	out := testkit.Must(cmd.StdoutPipe())(t)
	testkit.StartGroup(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Skipf("strace cannot start the server here: %v", err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	c := client.New(url, client.Options{})
	testkit.Eventually(t, "the server is ready", func() bool { return c.Ready(t.Context()) == nil })
	for range 100 {
		j := testkit.Must(c.Create(t.Context(), client.TextJob("square", "7")))(t)
		claim := testkit.Must(c.Claim(t.Context(), client.ClaimRequest{RunnerID: "test", Max: 1}))(t)
		testkit.MustHold(t, claim != nil, claim)
		testkit.Must(c.Complete(t.Context(), j.ID, claim.ID, client.Outcome{Output: []byte("49")}))(t)
	}
	resp := testkit.Must(http.Get(url + "/metrics"))(t)
	resp.Body.Close()
	testkit.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM))
	_ = cmd.Wait() // strace's exit status after a signal differs between versions
	text := testkit.Must(os.ReadFile(calls))(t)
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\d+ +([a-z0-9_]+)\((.*)`).FindAllStringSubmatch(string(text), -1) {
		used[m[1]] = true
		testkit.Holds(t, !strings.Contains(m[2], "PROT_WRITE") || !strings.Contains(m[2], "PROT_EXEC"), "the unit forbids", m[1], m[2])
	}
	testkit.Holds(t, used["accept4"] && (used["fdatasync"] || used["fsync"]), "the trace lacks calls", used)
	for _, call := range slices.Sorted(maps.Keys(used)) {
		testkit.Holds(t, allowed[call], "the unit does not allow", call)
	}
}
