package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	daybook "github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/internal/containerjob"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// TestForks: a container that keeps starting processes stops at its limit.
func TestForks(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		r.want(r.run(t.Context(), guest("fork", "1000"), "", handler.Options{}), "error", "resource temporarily unavailable")
	})
}

// TestMemory: a container that exceeds its memory is killed, and the error names the cause.
func TestMemory(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		r.want(r.run(t.Context(), guest("hold", "200000000"), "", handler.Options{}), "error", "exit code 137")
		end := r.run(t.Context(), guest("hold", "200000000"), "", handler.Options{MemoryBytes: 32 << 20})
		r.want(end, "error", "exit code 137; a container that needs more memory than it may have, 33554432 bytes, is killed")
	})
}

// TestLongLog: the beginning and end of a long log are kept, with bounded disk space and memory.
func TestLongLog(t *testing.T) {
	bytes := "100000000"
	if testing.Short() {
		bytes = "30000000"
	}
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, func(s *Settings) { s.Logs = nil })
		end := r.run(t.Context(), guest("spew", bytes), "", handler.Options{})
		r.want(end, "ok", "")
		got := r.report(end)
		log := r.blobs[got.LogAddr]
		if len(log) < 128<<10 || len(log) > 128<<10+100 || !strings.HasPrefix(log, "the beginning\nxxx") || !strings.HasSuffix(log, "xxx\nthe end\n") || !strings.Contains(log, "bytes are left out here]\n") {
			t.Errorf("%d bytes: %.100q … %q", len(log), log, log[max(0, len(log)-100):])
		}
		testkit.Holds(t, got.LogBytes >= 29_000_000, "the log had", got.LogBytes, "bytes")
	})
}

// TestTricks: a workspace with links, pipes and closed directories can be pushed, without following any of them, and
// removed.
func TestTricks(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		end := r.run(t.Context(), guest("tricks"), `"Output":{"Name":"out","Patterns":["*.dat"]}`, handler.Options{})
		r.want(end, "error", "push the fileset out: p")
		end = r.run(t.Context(), guest("tricks"), `"Output":{"Name":"out","Patterns":["good.dat"]}`, handler.Options{})
		r.want(end, "ok", "")
		got := r.filesets["out"]
		testkit.Holds(t, len(got) == 1 && got["good.dat"] == "good", "the output is", got)
	})
}

// TestLargeWorkspace: a container that fills the disk or nests directories without end is killed.
func TestLargeWorkspace(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, func(s *Settings) { s.WorkspaceBytes = 8 << 20 })
		r.want(r.run(t.Context(), guest("fill", "16777216"), "", handler.Options{}), "failed", "its files have more than 8388608 bytes")
		r.want(r.run(t.Context(), guest("deep", "1000"), "", handler.Options{}), "failed", "directories in more than 100 levels")
	})
}

// TestDeletedFiles: files that a container deletes but keeps open or mapped count.
func TestDeletedFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("they are counted on Linux only")
	}
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, func(s *Settings) { s.WorkspaceBytes = 10 << 20 })
		for _, verb := range []string{"deleted", "mapped"} {
			if verb == "mapped" && os.Getuid() != 0 {
				t.Log("a file that is mapped and closed counts only as far as it is mapped: the runner is not root")
				continue
			}
			r.want(r.run(t.Context(), guest(verb, "16777216"), "", handler.Options{}), "failed", "files that were deleted and are still open have ")
		}
		r.want(r.run(t.Context(), guest("deleted", "8388608"), "", handler.Options{TimeoutMs: 2000}), "error", "time-out")
	})
}

// TestLargeInput: an input that does not fit into the workspace is refused before any file is fetched.
func TestLargeInput(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, func(s *Settings) { s.WorkspaceBytes = 8192 })
		r.filesets["three"] = map[string]string{"a": "1", "b": "2", "c": "3"}
		end := r.run(t.Context(), guest("upper"), `"Input":{"Name":"three","Patterns":["*"]}`, handler.Options{})
		r.want(end, "failed", "pull the fileset three: the input does not fit into the workspace: its 3 files take 12288 bytes on disk, and a workspace may have 8192")
		got := r.report(end)
		testkit.Holds(t, len(got.Steps) == 1 && got.Steps[0].Step == pullFileset && got.Steps[0].Error != "", got)
		r.filesets["two"] = map[string]string{"a": "1", "b": strings.Repeat("x", 4096)}
		r.want(r.run(t.Context(), guest("upper"), `"Input":{"Name":"two","Patterns":["*"]}`, handler.Options{}), "ok", "")
		r.filesets["deep"] = map[string]string{strings.Repeat("d/", maxDepth+1) + "f": "1"}
		r.want(r.run(t.Context(), guest("upper"), `"Input":{"Name":"deep","Patterns":["*"]}`, handler.Options{}), "failed", "it has directories in 101 levels")
		r.engine.WorkspaceBytes = 1 << 60
		m := &fileset.Manifest{Files: []fileset.File{{Path: "a", Size: 1 << 50}}}
		if err := r.engine.fits(m, t.TempDir()); err == nil || errors.Is(err, errFull) || !strings.Contains(err.Error(), "bytes in all") {
			t.Errorf("an input that is larger than the disk: %v", err)
		}
	})
}

// TestEnd: a container gets its stop signal after the time-out, and when nobody waits for the result. If it ignores the
// signal, it is killed.
func TestEnd(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		r.engine.grace = time.Second
		// Docker may be slow to start a container on a busy machine, and the time-out counts from the start.
		end := r.run(t.Context(), guest("stubborn"), "", handler.Options{TimeoutMs: 1500})
		r.want(end, "error", "the container took longer than its time-out, 1500 ms")
		testkit.Equal(t, *end.ProcessExit, 137)
		for _, c := range []struct{ config, signal string }{{guest("polite"), "terminated"}, {guest("polite") + `,"StopSignal":"SIGINT"`, "interrupt"}} {
			r.server.mu.Lock()
			r.live.Reset()
			r.server.mu.Unlock()
			select {
			case <-r.printed: // left over from the last container
			default:
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-r.printed; cancel(worker.ErrLeaseLost) }()
			end = r.run(ctx, c.config, `"Output":{"Name":"out","Patterns":["**"]}`, handler.Options{})
			cancel(nil)
			r.want(end, "error", "the run was ended: "+worker.ErrLeaseLost.Error()+"\nstarted\ngot "+c.signal)
			testkit.Holds(t, end.Output == nil && r.filesets["out"] == nil, "a run that nobody waits for has the output", string(end.Output))
		}
	})
}

// TestRefusals: a job whose payload is not allowed fails before the engine is asked.
func TestRefusals(t *testing.T) {
	images, err := ParseImages([]string{"docker.io/library/daybook-guest:1", "registry.example.com:5000/team/*:2", "docker.io/library/pinned@sha256:*"})
	testkit.NoError(t, err)
	x := &Executor{engine: &Engine{Settings: Settings{Images: images}, rootless: true}, images: images}
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	image := `"Image":"daybook-guest:1"`
	for _, c := range []struct{ payload, want string }{
		{``, "it is not a JSON object"},
		{`[]`, "it is not a JSON object"},
		{`{}`, "Container.Config.Image is missing"},
		{`{"Container":{"Config":{` + image + `,"Image":"x"}}}`, "duplicate"},
		{`{"Container":{"Config":{` + image + `,"image":"x"}}}`, "duplicate"},
		{`{"Container":{"Config":{` + image + `},"HostConfig":{"Privileged":true}}}`, "Container.HostConfig is not a field that a job may set"},
		{`{"Container":{"Config":{` + image + `,"HostConfig":{"Binds":["/:/host"]}}}}`, "Container.Config.HostConfig is not"},
		{`{"Container":{"Config":{` + image + `,"Privileged":true}}}`, "Container.Config.Privileged is not"},
		{`{"Container":{"Config":{` + image + `,"NetworkMode":"host"}}}`, "Container.Config.NetworkMode is not"},
		{`{"Container":{"Config":{` + image + `,"Volumes":{"../x":{}}}}}`, "Container.Config.Volumes: \"../x\" is no absolute path"},
		{`{"HostConfig":{"NetworkMode":"host"},"Container":{"Config":{` + image + `}}}`, "HostConfig is not"},
		{`{"Container":{"Config":{` + image + `,"Cmd":"sh"}}}`, "Container.Config.Cmd has a value of another type"},
		{`{"Container":{"Config":{"Image":"other:1"}}}`, "docker.io/library/other:1 is not in the list"},
		{`{"Container":{"Config":{"Image":"daybook-guest"}}}`, "docker.io/library/daybook-guest:latest is not in the list"},
		{`{"Container":{"Config":{"Image":"evil.example.com/library/daybook-guest:1"}}}`, "is not in the list"},
		{`{"Container":{"Config":{"Image":"docker.io/library/daybook-guest:1@` + digest + `"}}}`, "daybook-guest@" + digest + " is not in the list"},
		{`{"Container":{"Config":{"Image":"registry.example.com:5000/team/a/b:2"}}}`, "is not in the list"},
		{`{"Container":{"Config":{"Image":"registry.example.com:5000/team/../evil:2"}}}`, "is no name of an image"},
		{`{"Container":{"Config":{"Image":"` + digest + `"}}}`, "is not in the list"},
		{`{"Container":{"Config":{"Image":"` + strings.Repeat("0123456789abcdef", 4) + `"}}}`, "is no name of an image"},
		{`{"Container":{"Config":{"Image":"daybook-guest:1 --privileged"}}}`, "is no name of an image"},
		{`{"Container":{"Config":{"Image":"daybook-guest:1/../x"}}}`, "is no name of an image"},
		{`{"Container":{"Config":{"Image":"http://evil/x"}}}`, "is no name of an image"},
		{`{"Container":{"Config":{` + image + `,"WorkingDir":"../.."}}}`, "WorkingDir leaves the workspace"},
		{`{"Container":{"Config":{` + image + `,"WorkingDir":"/proc/self/fd/8"}}}`, "WorkingDir must not be in /proc"},
		{`{"Container":{"Config":{` + image + `,"WorkingDir":"/workspace/../dev"}}}`, "WorkingDir must not be in /dev"},
		{`{"Container":{"Config":{` + image + `,"WorkingDir":"//sys/../sys/./fs"}}}`, "WorkingDir must not be in /sys"},
		{`{"Container":{"Config":{` + image + `,"WorkingDir":"` + strings.Repeat("a/", 200) + `"}}}`, "WorkingDir leaves the workspace"},
		{`{"Container":{"Config":{` + image + `,"User":"root"}}}`, "User must be the number"},
		{`{"Container":{"Config":{` + image + `,"User":"0"}}}`, "User must be the number"},
		{`{"Container":{"Config":{` + image + `,"User":"1000:0"}}}`, "User must be the number"},
		{`{"Container":{"Config":{` + image + `,"User":"4294967296"}}}`, "User must be the number"},
		{`{"Container":{"Config":{` + image + `,"User":"77"}}}`, "containers of this runner have the user 0:0"},
		{`{"Container":{"Config":{` + image + `,"Env":["PATH"]}}}`, "Env[0] must be NAME=value"},
		{`{"Container":{"Config":{` + image + `,"Env":["A=1","DAYBOOK_JOB_ID=2"]}}}`, "Env[1] sets DAYBOOK_JOB_ID"},
		{`{"Container":{"Config":{` + image + `,"Cmd":["a\u0000b"]}}}`, "Cmd[0] has a NUL byte"},
		{`{"Container":{"Config":{` + image + `,"StopSignal":"9; reboot"}}}`, "StopSignal must be the name or number"},
		{`{"Container":{"Config":{` + image + `,"Labels":{"":"x"}}}}`, "Labels: the label"},
		{`{"Container":{"Config":{` + image + `,"Cmd":[` + strings.Repeat(`"a",`, 1000) + `"a"]}}}`, "Cmd has 1001 texts"},
		{`{"Container":{"Config":{` + image + `}},"Fileset":{"Input":{"Name":"../x"}}}`, "Fileset.Input.Name"},
		{`{"Container":{"Config":{` + image + `}},"Fileset":{"Input":{"Name":"x","Dir":"/etc"}}}`, "Fileset.Input.Dir is not"},
		{`{"Container":{"Config":{` + image + `}},"Fileset":{"Input":{"Patterns":["*"]}}}`, "Fileset.Input has patterns and no name"},
		{`{"Container":{"Config":{` + image + `}},"Fileset":{"Input":{"Name":"x"}}}`, "this runner has no filesets"},
	} {
		var end task.End
		x.Run([]*task.Task{task.New(t.Context(), &daybook.Job{Payload: []byte(c.payload)}, func(e task.End) { end = e })})
		testkit.Holds(t, end.Code == "failed" && strings.Contains(end.Error, c.want) && len(end.Error) <= 1000, c.payload,
			end.Code, end.Error, "want", c.want)
	}
	for _, payload := range []string{
		`{"Container":{"Config":{` + image + `}}}`,
		`{"container":{"config":{"image":"daybook-guest:1","working_dir":"a/./b","stop_signal":"SIGINT"}}}`,
		`{"Container":{"ID":"","Config":{"Hostname":"","Tty":false,"Volumes":null,"Labels":{},` + image + `,"WorkingDir":"/workspace/a/b/"}},"Fileset":{"Input":{"Name":""},"Output":null},"Owner":"","Result":null}`,
		`{"Container":{"Config":{"Image":"registry.example.com:5000/team/a:2"}}}`,
		`{"Container":{"Config":{` + image + `,"WorkingDir":"/","StopSignal":"SIGWINCH","Tty":true}}}`,
		`{"Container":{"Config":{"Image":"pinned:9@` + digest + `"}}}`,
	} {
		r := &run{engine: x.engine, executor: x, job: &daybook.Job{Payload: []byte(payload)}}
		end, ok := r.read()
		testkit.Holds(t, ok && (r.dir == "." || r.dir == "a/b" || r.dir == "/"), payload, end.Error, "directory", r.dir)
	}
}

// TestParseImages: patterns must start with a registry.
func TestParseImages(t *testing.T) {
	for pattern, want := range map[string]string{
		"busybox": "must begin with a registry", "*": "must begin with a registry", "library/busybox:1": "must begin with a registry", "*.io/a:1": "must not have a pattern in place of its registry",
		"docker.io/library/busybox": "must end with a tag", "docker.io/": "must begin with a registry", "docker.io/[a-z]:1": "no other patterns", "docker.io/a:": "must end with a tag",
	} {
		_, err := ParseImages([]string{pattern})
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), want), pattern, err, "want", want)
	}
	testkit.Fails(ParseImages(make([]string, maxPatterns+1)))(t)
}

// TestLeftOvers: a starting runner removes the containers and files of killed runners with the same directory. It leaves
// alone the files of running runners and of other directories.
func TestLeftOvers(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		dir := filepath.Join(t.TempDir(), "workspaces")
		in := func(s *Settings) { s.Workspaces = dir }
		living := newServer()
		first := testkit.Must(New(t.Context(), living.settings(t, e, in)))(t)
		killed := testkit.Must(New(t.Context(), newServer().settings(t, e, in)))(t)
		other := testkit.Must(New(t.Context(), newServer().settings(t, e, nil)))(t) // uses another directory
		made := map[string]string{}
		for name, of := range map[string]*Engine{"living": first, "killed": killed, "other": other} {
			ws := testkit.Must(of.workspaces.newRun())(t)
			img := testkit.Must(of.docker.ImageInspect(t.Context(), guestImage))(t)
			user, group := testkit.Must2(of.user(""))(t)
			c := testkit.Must(of.docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{
				HostConfig: of.hostConfig(ws.dir(), 64<<20, &volumes{memory: []string{"/volume"}}), Config: of.config(&containerjob.Config{Cmd: []string{"stubborn"}}, &daybook.Job{ID: name}, containerjob.MountPoint, fmt.Sprintf("%d:%d", user, group), img.ID),
			}))(t)
			testkit.Must(of.docker.ContainerStart(t.Context(), c.ID, client.ContainerStartOptions{}))(t)
			made[name] = c.ID
			t.Cleanup(func() { testkit.Check(t, of.remove(context.Background(), c.ID)) })
		}
		killed.workspaces.lock.Close() // the kernel does this when it kills a process
		second := testkit.Must(New(t.Context(), newServer().settings(t, e, in)))(t)
		for name, id := range made {
			_, err := first.docker.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
			testkit.Equal(t, err == nil, name != "killed", "the container of", name, err)
		}
		testkit.Equal(t, second.Stats().LeftOvers, 1, "left-over containers were removed")
		if killed.workspaces.has(killed.workspaces.instance) || !first.workspaces.has(first.workspaces.instance) || entries(t, dir) != 3 {
			t.Errorf("the directory of the killed runner is there: %v; there are %d", killed.workspaces.has(killed.workspaces.instance), entries(t, dir))
		}
		testkit.Check(t, errors.Join(first.Close(), second.Close(), other.Close(), killed.docker.Close()))
	})
}

// TestImageIsMissing: a missing image is an error if the runner does not pull images. Otherwise it is pulled, and the job
// keeps its attempt if the registry is unreachable.
func TestImageIsMissing(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		r.want(r.run(t.Context(), `"Image":"daybook-guest:9"`, "", handler.Options{}), "error", "does not have the image docker.io/library/daybook-guest:9, and this runner pulls none")
		images := testkit.Must(ParseImages([]string{"127.0.0.1:1/daybook-none:*"}))(t)
		r.engine.Pull, r.engine.Images = true, images
		end := r.run(t.Context(), `"Image":"127.0.0.1:1/daybook-none:9"`, "", handler.Options{})
		testkit.Holds(t, end.Unget && strings.Contains(end.Unable, "pull the image 127.0.0.1:1/daybook-none:9: ") &&
			r.steps[0] == "Pulling docker image: 127.0.0.1:1/daybook-none:9", end, "shown as", r.steps)
	})
}

// TestEngineIsAway: if the engine does not answer, a job goes back to its queue. A runner does not start without an
// engine.
func TestEngineIsAway(t *testing.T) {
	host := "unix://" + filepath.Join(t.TempDir(), "sock")
	testkit.Fails(New(t.Context(), Settings{Engine: host}))(t, host)
	for _, named := range []string{"tcp://127.0.0.1:2375", "ssh://host", "unix://sock", "/run/docker.sock"} {
		_, err := FindEngine(named)
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), "must be a socket of this machine"), named, err)
	}
	synctest.Test(t, func(t *testing.T) {
		docker := testkit.Must(client.New(client.WithHost(host)))(t)
		images := testkit.Must(ParseImages([]string{"docker.io/library/a:*"}))(t)
		set := Settings{Images: images}
		testkit.NoError(t, set.check())
		x := &Executor{engine: &Engine{Settings: set, docker: docker}, images: images}
		began := time.Now()
		var end task.End
		x.Run([]*task.Task{task.New(t.Context(), &daybook.Job{Payload: []byte(`{"Container":{"Config":{"Image":"a"}}}`)}, func(e task.End) { end = e })})
		testkit.Holds(t, end.Unget && time.Since(began) >= awayTimeout, end, "after", time.Since(began))
	})
}

// TestUnsafeDirectory: New refuses a directory of workspaces that other users can change.
func TestUnsafeDirectory(t *testing.T) {
	dir := t.TempDir()
	testkit.NoError(t, os.Chmod(dir, 0o777))
	testkit.Fails(openWorkspaces(dir))(t, "is not safe")
	if os.Getuid() == 0 {
		testkit.NoError(t, errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 65534, 65534)))
		testkit.Fails(openWorkspaces(dir))(t, "it belongs to the user 65534")
	}
}

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
