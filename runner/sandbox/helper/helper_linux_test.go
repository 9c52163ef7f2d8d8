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
		if n := d.number(); n != uint64(len(b)-8) {
			t.Fatalf("length %d of %d", n, len(b)-8)
		}
		var got Settings
		if !got.Decode(b[8:]) || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v\nnot %+v", got, s)
		}
		for n := range len(b) - 8 {
			if (&Settings{}).Decode(b[8 : 8+n]) {
				t.Errorf("the first %d bytes are settings", n)
			}
		}
		if (&Settings{}).Decode(append(b[8:], 0)) {
			t.Error("settings with another byte")
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add(full.Append(nil)[8:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again Settings
		if s.Decode(b) && (!again.Decode(s.Append(nil)[8:]) || !reflect.DeepEqual(s, again)) {
			t.Errorf("%+v, then %+v", s, again)
		}
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
		if got := DecodeMessage(&b); got != m {
			t.Errorf("%+v, not %+v", got, m)
		}
	}
}

// TestVariable: if a user starts a process with the variable, it explains the variable.
func TestVariable(t *testing.T) {
	exe := testkit.Must(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), Variable+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), Variable) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestDescendants finds a child and its child.
func TestDescendants(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & echo $!; wait")
	out := testkit.Must(cmd.StdoutPipe())(t)
	testkit.StartGroup(t, cmd)
	var line [16]byte
	n := testkit.Must(out.Read(line[:]))(t)
	child, ok := decimal(strings.TrimSpace(string(line[:n])))
	if found := descendants(os.Getpid()); !ok || !reflect.DeepEqual(found, []int{cmd.Process.Pid, child}) {
		t.Errorf("%v, not %d and %d", found, cmd.Process.Pid, child)
	}
	if text(0) != "0" || text(1203) != "1203" {
		t.Error(text(0), text(1203))
	}
}
