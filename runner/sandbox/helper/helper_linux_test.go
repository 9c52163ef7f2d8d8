package helper

import (
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

var full = Settings{
	Path: "/bin/sh", Argv: []string{"sh", "-c", "echo a\nb", ""}, Env: []string{"A=b", "C="}, Dir: "/tmp", FirstFile: 6, Files: 2, Ruleset: 4, CgroupKill: -1,
	MountProc: true, ProcAccess: 1<<63 | 5, Sweep: true, Capabilities: 1<<41 - 1, Limits: []Limit{{7, 1024}, {4, 0}}, Filter: []uint64{1, 1<<64 - 1},
}

func TestSettings(t *testing.T) {
	for _, s := range []Settings{full, {Argv: []string{}, Env: []string{}, Ruleset: -1}} {
		b := s.Append([]byte("before"))
		b = b[len("before"):]
		d := decoder{b[:8], true}
		testkit.MustEqual(t, d.number(), uint64(len(b)-8), "length", "of", len(b)-8)
		var got Settings
		testkit.Holds(t, got.Decode(b[8:]) && reflect.DeepEqual(got, s), got, "not", s)
		for n := range len(b) - 8 {
			testkit.Holds(t, !(&Settings{}).Decode(b[8:8+n]), "the first", n, "bytes are settings")
		}
		testkit.Holds(t, !(&Settings{}).Decode(append(b[8:], 0)), "settings with another byte")
	}
}

func FuzzSettings(f *testing.F) {
	f.Add(full.Append(nil)[8:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again Settings
		testkit.Holds(t, !s.Decode(b) || again.Decode(s.Append(nil)[8:]) && reflect.DeepEqual(s, again), s, "then", again)
	})
}

func TestMessage(t *testing.T) {
	for _, m := range []Message{
		{Kind: Running},
		{Kind: Refused, Errno: syscall.ENOENT, Text: "mount /proc"},
		{Kind: Refused, Errno: syscall.EPERM, Text: strings.Repeat("x", maxText)},
		{Kind: Ended, Status: 0x8b, UserMicros: 1, SystemMicros: 1 << 40, MaxResidentKiB: 3},
	} {
		b := m.Encode()
		testkit.Equal(t, DecodeMessage(&b), m)
	}
}

// TestVariable: if a user starts a process with the variable, it explains the variable.
func TestVariable(t *testing.T) {
	exe := testkit.Must(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), Variable+"=1")
	out, err := cmd.CombinedOutput()
	testkit.Holds(t, cmd.ProcessState.ExitCode() == 2 && strings.Contains(string(out), Variable), err, string(out))
}

// TestDescendants finds a child and its child.
func TestDescendants(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & echo $!; wait")
	out := testkit.Must(cmd.StdoutPipe())(t)
	testkit.StartGroup(t, cmd)
	var line [16]byte
	n := testkit.Must(out.Read(line[:]))(t)
	child, ok := decimal(strings.TrimSpace(string(line[:n])))
	found := descendants(os.Getpid())
	testkit.Holds(t, ok && reflect.DeepEqual(found, []int{cmd.Process.Pid, child}), found, "not", cmd.Process.Pid, "and", child)
	testkit.Holds(t, text(0) == "0" && text(1203) == "1203", text(0), text(1203))
}
