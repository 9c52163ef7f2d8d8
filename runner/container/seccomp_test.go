package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/system"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// TestNamespaces: a container cannot create a user namespace, in which it would have capabilities, and cannot change
// mounts.
func TestNamespaces(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		end := r.run(t.Context(), guest("namespaces"), "", handler.Options{})
		r.want(end, "ok", "")
		log := r.blobs[r.report(end).LogAddr]
		for _, call := range []string{"clone", "clone3", "unshare", "setns", "mount", "fsopen", "move_mount"} {
			testkit.Holds(t, strings.Contains(log, call+": operation not permitted\n") || strings.Contains(log, call+": function not implemented\n"),
				"the container may call", call)
		}
		testkit.Lacks(t, strings.Join(r.engine.Missing(), "; "), "namespaces")
		if t.Failed() {
			t.Log(log)
		}
	})
}

// TestUnfiltered: the runner's profile alone refuses namespaces if the engine has no profile.
func TestUnfiltered(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		r.engine.info.SecurityOptions, r.engine.podmanFilter = []string{"name=seccomp,profile=unconfined"}, "unconfined"
		err := r.engine.filter()
		testkit.MustHold(t, err == nil && r.engine.seccomp != "", err)
		end := r.run(t.Context(), guest("namespaces"), "", handler.Options{})
		r.want(end, "ok", "")
		log := r.blobs[r.report(end).LogAddr]
		testkit.Holds(t, strings.Count(log, ": operation not permitted\n") == 6 && strings.Contains(log, "clone3: function not implemented\n"), log)
	})
}

// TestNoNamespaces: noNamespaces keeps the refusals of a profile, and removes the calls that create namespaces.
func TestNoNamespaces(t *testing.T) {
	end := `{"names":["unshare","setns","mount","umount","umount2","pivot_root","fsopen","fsconfig","fsmount","fspick","move_mount","open_tree","open_tree_attr","mount_setattr"],` +
		`"action":"SCMP_ACT_ERRNO","errnoRet":1},{"names":["clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38}]`
	masked := `"args":[{"index":0,"value":2114060288,"valueTwo":0,"op":"SCMP_CMP_MASKED_EQ"}]`
	for _, c := range []struct{ profile, want string }{
		{`{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38,"syscalls":[{"names":["read","clone","clone3","unshare","mount"],"action":"SCMP_ACT_ALLOW","includes":{"arches":["amd64"]}}]}`,
			`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["clone"],"action":"SCMP_ACT_ALLOW",` + masked + `,"includes":{"arches":["amd64"]}},` +
				`{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"arches":["amd64"]}},` + end + `,"defaultErrnoRet":38}`},
		{`{"DefaultAction":"SCMP_ACT_ERRNO","Syscalls":[{"Name":"setns","Action":"SCMP_ACT_ALLOW"},{"Name":"write","Action":"SCMP_ACT_LOG"}]}`,
			`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["write"],"action":"SCMP_ACT_LOG"},` + end + `}`},
		{`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["clone"],"action":"SCMP_ACT_ALLOW",` + masked + `}]}`,
			`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["clone"],"action":"SCMP_ACT_ALLOW",` + masked + `},` + end + `}`},
		{`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["clone","bpf"],"action":"SCMP_ACT_KILL"}]}`,
			`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["bpf","clone"],"action":"SCMP_ACT_KILL"},` + end + `}`},
	} {
		got, err := noNamespaces([]byte(c.profile))
		testkit.Holds(t, err == nil && string(got) == c.want, c.profile, "is", string(got), err, "want", c.want)
	}
	for _, profile := range []string{``, `[]`, `{"syscalls":{}}`,
		`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["clone"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":17,"op":"SCMP_CMP_EQ"}]}]}`,
		`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["clone"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":268435456,"valueTwo":268435456,"op":"SCMP_CMP_MASKED_EQ"}]}]}`,
	} {
		got, err := noNamespaces([]byte(profile))
		testkit.Holds(t, err != nil, profile, "is", string(got))
	}
}

// TestFilterIsMissing: Missing reports an engine whose profile cannot be read.
func TestFilterIsMissing(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	testkit.NoError(t, os.WriteFile(large, make([]byte, maxProfileBytes+1), 0o600))
	for path, want := range map[string]string{"": "does not name the file", "relative.json": `but "relative.json"`, large + "-none": "no such file", large: "has more than 1048576 bytes"} {
		e := &Engine{podman: true, podmanFilter: path, info: system.Info{MemoryLimit: true, SwapLimit: true, PidsLimit: true, SecurityOptions: []string{"name=seccomp,profile=default"}}}
		err := e.filter()
		if missing := e.Missing(); err != nil || e.seccomp != "" || len(missing) != 1 || !strings.Contains(missing[0], "user namespaces") || !strings.Contains(missing[0], want) {
			t.Errorf("%s: %v, %q", path, err, missing)
		}
	}
}
