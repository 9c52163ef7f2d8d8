package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/moby/moby/client"

	daybook "github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// server is a fake server: its blobs, filesets and live logs.
type server struct {
	mu       sync.Mutex
	blobs    map[string]string
	filesets map[string]map[string]string
	live     bytes.Buffer
	steps    []string
	printed  chan struct{} // gets a value for each part of a log; capacity 1
	pullErr  error
	pushErr  func() error // called before a push
	putErr   func() error // called before a blob is stored
}

func (s *server) Put(_ context.Context, _ string, r io.Reader) (string, error) {
	text, err := io.ReadAll(r)
	if err == nil && s.putErr != nil {
		err = s.putErr()
	}
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	address := fmt.Sprintf("sha256:%d", len(s.blobs))
	s.blobs[address] = string(text)
	return address, nil
}

func (s *server) Append(_ context.Context, jobID, claimID string, offset int64, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if jobID != "job-1" || claimID != "claim-1" {
		return fmt.Errorf("the log of %s and %s", jobID, claimID)
	}
	if gap := int(offset) - s.live.Len(); gap != 0 {
		return fmt.Errorf("a gap of %d bytes", gap)
	}
	s.live.Write(p)
	select {
	case s.printed <- struct{}{}:
	default:
	}
	return nil
}

func (s *server) Pull(_ context.Context, _, name string, version int, patterns []string, dir string, fits func(*fileset.Manifest) error) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pullErr != nil {
		return 0, s.pullErr
	}
	files, ok := s.filesets[name]
	if !ok {
		return 0, fmt.Errorf("there is no fileset %s", name)
	}
	m := &fileset.Manifest{}
	for name, text := range files {
		m.Files = append(m.Files, fileset.File{Path: name, Size: int64(len(text))})
	}
	if err := fits(m); err != nil {
		return 0, err
	}
	for name, text := range files {
		if !matches(patterns, name) {
			continue
		}
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, []byte(text), 0o600)); err != nil {
			return 0, err
		}
	}
	return max(version, 3), nil
}

func (s *server) Push(_ context.Context, _, name string, patterns []string, dir string) (int, error) {
	if s.pushErr != nil {
		if err := s.pushErr(); err != nil {
			return 0, err
		}
	}
	files := map[string]string{}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !matches(patterns, path) {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no file", path)
		}
		text, err := root.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filesets[name] = files
	return 1, nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok || p == "**/*.dat" && strings.HasSuffix(name, ".dat")
	})
}

func (s *server) step(_ context.Context, _, _, step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step)
}

// rig runs containers as a runner does.
type rig struct {
	*testing.T
	*server
	engine *Engine
	docker *client.Client
	real   *realEngine
}

func newServer() *server {
	return &server{blobs: map[string]string{}, filesets: map[string]map[string]string{}, printed: make(chan struct{}, 1)}
}

func (s *server) settings(t *testing.T, e *realEngine, change func(*Settings)) Settings {
	images := testkit.Must(ParseImages([]string{"docker.io/library/daybook-guest:*"}))(t)
	set := Settings{
		Engine: e.host, Workspaces: filepath.Join(t.TempDir(), "workspaces"), Runner: "r", Images: images, MemoryBytes: 64 << 20, Processes: 32, TmpBytes: 1 << 20, LogBytes: 128 << 10,
		WorkspaceBytes: 64 << 20, Blobs: s, Filesets: s, Logs: s, Step: s.step, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if change != nil {
		change(&set)
	}
	return set
}

func newRig(t *testing.T, e *realEngine, change func(*Settings)) *rig {
	t.Helper()
	s := newServer()
	set := s.settings(t, e, change)
	made := testkit.Must(New(t.Context(), set))(t)
	r := &rig{t, s, made, made.docker, e}
	t.Cleanup(func() {
		testkit.Check(t, made.Close())
		testkit.Equal(t, entries(t, set.Workspaces), 1, "entries are left in the directory of workspaces") // the file id
		r.wantContainers(0)
	})
	return r
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list := testkit.Must(os.ReadDir(dir))(t)
	return len(list)
}

// wantContainers checks the number of this test's containers that the engine has.
func (r *rig) wantContainers(want int) {
	r.Helper()
	docker := testkit.Must(client.New(client.WithHost(r.real.host)))(r)
	defer docker.Close()
	list := testkit.Must(docker.ContainerList(context.Background(), client.ContainerListOptions{All: true}))(r)
	testkit.Equal(r, len(list.Items), want, "the engine", "containers, want")
}

// guest returns the Config of a job that runs the guest program with these arguments.
func guest(args ...string) string {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`"Image":"daybook-guest:1","Cmd":%s`, text)
}

// run runs a job with the given Config and Fileset.
func (r *rig) run(ctx context.Context, config, filesets string, options handler.Options) task.End {
	r.Helper()
	x := testkit.Must(r.engine.Executor(Handler{Options: options, ExitCodes: map[string]string{"3": "failed"}}))(r)
	payload := fmt.Sprintf(`{"Container":{"Config":{%s}},"Fileset":{%s}}`, config, filesets)
	var end task.End
	j := &daybook.Job{ID: "job-1", ClaimID: "claim-1", Client: "ada", Type: "etcdq", Payload: []byte(payload), Kind: daybook.JSON, RunAttempts: 2}
	x.Run([]*task.Task{task.New(ctx, j, func(e task.End) { end = e })})
	if r.T.Failed() {
		return end
	}
	r.wantContainers(0)
	return end
}

func (r *rig) report(end task.End) report {
	r.Helper()
	var got report
	err := json.Unmarshal(end.Output, &got)
	testkit.MustHold(r, err == nil && end.OutputKind == daybook.JSON, "the output", string(end.Output), err, "the outcome is", end.Code, end.Error)
	return got
}

// want checks the code of an outcome, and the beginning of its error.
func (r *rig) want(end task.End, code, text string) {
	r.Helper()
	testkit.MustHold(r, end.Code == code && !end.Unget && strings.Contains(end.Error, text) &&
		(text != "" || end.Error == ""), "the outcome is", end.Code, end.Error, "(unget", end.Unget, ", want", code, text)
}

// TestRun: an etcdq job runs, from the input fileset to the output fileset.
func TestRun(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		r.filesets["in"] = map[string]string{"a.dat": "one", "sub/b.dat": "two", "sub/c.txt": "three", "d.log": "four"}
		end := r.run(t.Context(), guest("upper"), `"Input":{"Name":"in","Patterns":["**/*.dat","*/*.txt"]},"Output":{"Name":"out","Patterns":["out/*","out/*/*"]}`, handler.Options{})
		r.want(end, "ok", "")
		want := map[string]string{"out/a.dat": "ONE", "out/sub/b.dat": "TWO"}
		testkit.Equal(t, fmt.Sprint(r.filesets["out"]), fmt.Sprint(want), "the output", r.filesets["out"], want)
		got := r.report(end)
		var steps []string
		for _, s := range got.Steps {
			steps = append(steps, s.Step)
			testkit.Holds(t, s.At >= time.Now().Add(-time.Minute).UnixMilli() && s.DurationMs >= 0 && s.Error == "", s)
		}
		testkit.Equal(t, strings.Join(steps, " "), "pull_fileset create start run push_fileset", "the steps", steps)
		testkit.Equal(t, strings.Join(r.steps, ", "), "Pulling fileset: in, RUNNING, Pushing fileset: out", "the steps are shown as", r.steps)
		testkit.Holds(t, *got.ExitCode == 0 && *end.ProcessExit == 0 && *got.Input == (version{"in", 3}) &&
			*got.Output == (version{"out", 1}) && got.Image == guestImage && strings.HasPrefix(got.ImageID, "sha256:"), got)
		log := r.blobs[got.LogAddr]
		testkit.Equal(t, end.LogAddr, got.LogAddr, "the log of the outcome")
		testkit.Holds(t, log == "upper a.dat\nupper sub/b.dat\n" && got.LogBytes == int64(len(log)) &&
			r.live.String() == log, "the log is", log, "and as it came", r.live.String())
	})
}

// TestExitCodes: a non-zero exit status is an error, with the end of the log. The handler can map exit codes to other
// outcomes.
func TestExitCodes(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		for code, want := range map[string]string{"1": "error", "3": "failed", "75": "retry", "255": "error"} {
			end := r.run(t.Context(), guest("exit", code), `"Output":{"Name":"out","Patterns":["**"]}`, handler.Options{})
			r.want(end, want, "the container ended with exit code "+code+"\nabout to exit")
			if got := r.report(end); fmt.Sprint(*got.ExitCode) != code || fmt.Sprint(*end.ProcessExit) != code || got.Output != nil || r.blobs[got.LogAddr] != "about to exit\n" {
				t.Errorf("%s: %+v", code, got)
			}
		}
		testkit.Holds(t, r.filesets["out"] == nil, "a failed container has pushed", r.filesets["out"])
		end := r.run(t.Context(), guest("echo", "to stdout", "to stderr"), "", handler.Options{})
		r.want(end, "ok", "")
		testkit.Contains(t, r.blobs[r.report(end).LogAddr], "to stdout\n", "to stderr\n")
		end = r.run(t.Context(), `"Image":"daybook-guest:1","Entrypoint":["/none"]`, "", handler.Options{})
		r.want(end, "error", "start the container: ")
		got := r.report(end)
		testkit.Holds(t, got.Steps[len(got.Steps)-1].Error != "", got)
	})
}

// TestRights: a container has only the rights that it should have.
func TestRights(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		end := r.run(t.Context(), guest("look")+`,"WorkingDir":"a/b","Env":["OWN=1"],"Labels":{"traefik.enable":"true"}`, "", handler.Options{})
		r.want(end, "ok", "")
		log := r.blobs[r.report(end).LogAddr]
		for _, line := range []string{
			"CapEff: 0000000000000000", "CapPrm: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2", "Uid: 65534 65534 65534 65534", "Gid: 65534 65534 65534 65534",
			"directory /workspace/a/b", "write /workspace/new: true", "write /tmp/new: true", "write /volume/new: true", "write /dev/shm/new: true",
			"write /guest: false", "write /new: false", "write /etc/new: false", "write /sys/new: false", "write /proc/sys/kernel/hostname: false",
			"environment OWN=1", "environment DAYBOOK_JOB_ID=job-1", "environment DAYBOOK_CLIENT=ada", "environment DAYBOOK_TYPE=etcdq", "environment DAYBOOK_ATTEMPT=2",
		} {
			testkit.Holds(t, strings.Contains(log, line+"\n"), "the container has not", line)
		}
		end = r.run(t.Context(), guest("look")+`,"WorkingDir":"/","StopSignal":"SIGWINCH","Tty":true`, "", handler.Options{})
		r.want(end, "ok", "")
		testkit.Holds(t, strings.Contains(r.blobs[r.report(end).LogAddr], "\ndirectory /\n"), "the container does not start in the root of the image")
		for line := range strings.Lines(log) {
			if name, ok := strings.CutPrefix(line, "interface "); ok && strings.TrimSpace(name) != "lo" && !strings.HasPrefix(name, "tunl0") && !strings.HasPrefix(name, "sit0") && !strings.HasPrefix(name, "ip6tnl0") {
				t.Errorf("the container has the %s", line)
			}
			device, ok := strings.CutPrefix(strings.TrimSpace(line), "device ")
			if ok && !slices.Contains([]string{"core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero", "console"}, device) {
				t.Errorf("the container has the device %s", device)
			}
		}
		if t.Failed() {
			t.Log(log)
		}
		end = r.run(t.Context(), guest("look")+`,"User":"1234:2345"`, "", handler.Options{})
		r.want(end, "ok", "")
		testkit.Contains(t, r.blobs[r.report(end).LogAddr], "Uid: 1234 ", "Gid: 2345 ", "write /workspace/new: true")
	})
}
