package container_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner"
	"github.com/daybookq/daybook/runner/container"
	"github.com/daybookq/daybook/runner/sandbox"
)

// TestFilesets: the etcdq job on docs/how-to/from-etcdq.md runs, with another image and the server's own filesets, from
// an archive to files. If the output's patterns select a link that a container left, the push refuses it and never reads
// its target.
func TestFilesets(t *testing.T) {
	host, err := container.EngineOf("docker")
	if err != nil {
		t.Skipf("docker cannot be used: %v", err)
	}
	c := daybooktest.Start(t).Client
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, text := range map[string]string{"a.dat": "one", "sub/b.dat": "two", "sub/c.txt": "three"} {
		testkit.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text))}))
		testkit.Must(w.Write([]byte(text)))(t)
	}
	testkit.NoError(t, w.Close())
	testkit.Must(c.Filesets("").Put(t.Context(), "in", &archive))(t)
	ids := map[string]string{}
	for name, job := range map[string]struct{ cmd, out string }{"upper": {"upper", "out/**/*.dat"}, "tricks": {"tricks", "*.dat"}, "good": {"tricks", "good.dat"}} {
		payload := fmt.Sprintf(`{"Container":{"Config":{"Image":%q,"Cmd":[%q]}},"Fileset":{"Input":{"Name":"in","Patterns":["**/*.dat"]},"Output":{"Name":%q,"Patterns":[%q]}}}`, container.GuestImage, job.cmd, name, job.out)
		j, err := c.Create(t.Context(), client.NewJob{Client: "ada", Type: "etcdq", Kind: client.JSON, Payload: []byte(payload), Attributes: client.Attributes{MaxAttempts: 1}})
		testkit.NoError(t, err)
		ids[name] = j.ID
	}
	images := testkit.Must(container.ParseImages([]string{container.GuestImage}))(t)
	r := testkit.Must(runner.New(runner.Settings{
		Client: c, ID: "r", Concurrency: 2, DrainTimeout: 10 * time.Second, UntilIdle: 3 * time.Second, Sandbox: sandbox.Auto,
		Log:        slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Containers: container.Settings{Engine: host, Workspaces: filepath.Join(t.TempDir(), "workspaces")},
		Handlers:   map[string]*runner.Handler{"etcdq": {Images: images, Document: handler.Document{Kind: handler.Container}}},
	}))(t)
	testkit.Check(t, r.Run(t.Context()))
	page := httptest.NewRecorder()
	r.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		"daybook_runner_containers_running 0", `daybook_runner_containers_ended_total{code="ok"} 2`, `daybook_runner_containers_ended_total{code="error"} 1`,
		`daybook_runner_container_failures_total{reason="push_fileset"} 1`, `daybook_runner_container_failures_total{reason="exit"} 0`,
		`daybook_runner_container_steps_total{result="ok",step="pull_fileset"} 3`, `daybook_runner_container_steps_total{result="failed",step="push_fileset"} 1`,
		`daybook_runner_container_steps_total{result="ok",step="pull_image"} 0`, `daybook_runner_fileset_files_total{direction="pull",result="moved"} 6`,
		`daybook_runner_fileset_files_total{direction="push",result="moved"} 3`, `daybook_runner_fileset_bytes_total{direction="pull"} 18`, "daybook_runner_containers_removed_total 0",
		`daybook_runner_log_bytes_total{kind="container"} 28`, `daybook_runner_log_kept_bytes_total{kind="container"} 28`,
	} {
		testkit.Holds(t, strings.Contains(page.Body.String(), line+"\n"), "the metrics do not have", line)
	}
	if t.Failed() {
		t.Log(page.Body.String())
	}
	for name, want := range map[string]string{"upper": "out/a.dat ONE, out/sub/b.dat TWO", "good": "good.dat good"} {
		dir := filepath.Join(t.TempDir(), name)
		if _, _, err := c.Filesets("ada").Pull(t.Context(), name, dir, files.FilesetQuery{}); err != nil {
			t.Error(err)
			continue
		}
		var got []string
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			got = append(got, strings.TrimPrefix(path, dir+"/")+" "+string(text))
			return err
		})
		testkit.Holds(t, strings.Join(got, ", ") == want && err == nil, name, got, err)
	}
	j, err := c.Job(t.Context(), ids["tricks"])
	testkit.Holds(t, err == nil && j.Status == "failed" && strings.Contains(j.Error, "push the fileset tricks: "), j.Status, j.Error, err)
	testkit.Fails2(c.Filesets("ada").Manifest(t.Context(), "tricks", files.FilesetQuery{}))(t, client.ErrNotFound)
	j = testkit.Must(c.Job(t.Context(), ids["upper"]))(t)
	var steps []string
	for _, s := range j.Steps {
		steps = append(steps, s.Name)
	}
	testkit.Equal(t, strings.Join(steps, ", "), "Pulling fileset: in, RUNNING, Pushing fileset: upper", "the steps", steps)
}

// TestServerBreaks: if the connection breaks while the input is fetched, the job keeps its only attempt. A push whose
// connection breaks is repeated.
func TestServerBreaks(t *testing.T) {
	host, err := container.EngineOf("docker")
	if err != nil {
		t.Skipf("docker cannot be used: %v", err)
	}
	server := daybooktest.Start(t)
	target := testkit.Must(url.Parse(server.URL))(t)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	var puts, releases atomic.Int64
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/release"):
			releases.Add(1)
		case r.URL.Path == "/filesets/in" && releases.Load() < 2, r.URL.Path == "/filesets/out" && puts.Add(1) < 3:
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	dir := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "a.dat"), []byte("one"), 0o600))
	testkit.Must2(server.Client.Filesets("").Push(t.Context(), "in", dir, nil))(t)
	payload := `{"Container":{"Config":{"Image":"` + container.GuestImage + `","Cmd":["upper"]}},"Fileset":{"Input":{"Name":"in"},"Output":{"Name":"out","Patterns":["out/*"]}}}`
	j, err := server.Client.Create(t.Context(), client.NewJob{Type: "etcdq", Kind: client.JSON, Payload: []byte(payload), Attributes: client.Attributes{MaxAttempts: 1}})
	testkit.NoError(t, err)
	images := testkit.Must(container.ParseImages([]string{container.GuestImage}))(t)
	r := testkit.Must(runner.New(runner.Settings{
		Client: client.New(between.URL, client.Options{RetryFor: 50 * time.Millisecond}), ID: "r", Concurrency: 1, DrainTimeout: 10 * time.Second, UntilIdle: 3 * time.Second, Sandbox: sandbox.Auto,
		Log:        slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Containers: container.Settings{Engine: host, Workspaces: filepath.Join(t.TempDir(), "workspaces")},
		Handlers:   map[string]*runner.Handler{"etcdq": {Images: images, Document: handler.Document{Kind: handler.Container}}},
	}))(t)
	testkit.Check(t, r.Run(t.Context()))
	j, err = server.Client.Job(t.Context(), j.ID)
	testkit.Holds(t, err == nil && j.Status == "completed" && j.RunAttempts == 1, j.Status, "after", j.RunAttempts, "attempts", j.Error, err)
	m, _ := testkit.Must2(server.Client.Filesets("").Manifest(t.Context(), "out", files.FilesetQuery{}))(t)
	testkit.Holds(t, len(m.Files) == 1 && m.Files[0].Path == "out/a.dat", m)
	testkit.Holds(t, releases.Load() >= 2 && puts.Load() >= 3, releases.Load(), "releases", puts.Load(), "requests for the output")
}

// TestRunner: server, runner and engine work together. A stored handler cannot exceed the runner's limits, and the job's
// document has the steps.
func TestRunner(t *testing.T) {
	host, err := container.EngineOf("docker")
	if err != nil {
		t.Skipf("docker cannot be used: %v", err)
	}
	server := daybooktest.Start(t)
	images := testkit.Must(container.ParseImages([]string{container.GuestImage}))(t)
	testkit.Must(server.Client.PutHandler(t.Context(), "", "stored", handler.Document{Kind: handler.Container, Options: &handler.Options{MemoryBytes: 1 << 40}}))(t)
	settings := runner.Settings{
		Client: server.Client, ID: "r", Concurrency: 2, DrainTimeout: 10 * time.Second, UntilIdle: 3 * time.Second, Sandbox: sandbox.Auto, Accept: []string{handler.Container},
		Log:        slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Containers: container.Settings{Engine: host, Workspaces: filepath.Join(t.TempDir(), "workspaces"), Images: images, MemoryBytes: 64 << 20},
		Handlers:   map[string]*runner.Handler{"own": {Document: handler.Document{Kind: handler.Container}}},
	}
	ids := map[string]string{}
	for typ, cmd := range map[string]string{"own": `["echo","from a container"]`, "stored": `["hold","200000000"]`} {
		j, err := server.Client.Create(t.Context(), client.NewJob{Type: typ, Kind: client.JSON, Payload: []byte(`{"Container":{"Config":{"Image":"` + container.GuestImage + `","Cmd":` + cmd + `}}}`), Attributes: client.Attributes{MaxAttempts: 1}})
		testkit.NoError(t, err)
		ids[typ] = j.ID
	}
	testkit.Check(t, testkit.Must(runner.New(settings))(t).Run(t.Context()))
	j := testkit.Must(server.Client.Job(t.Context(), ids["own"]))(t)
	var report struct {
		ExitCode int `json:"exit_code"`
		LogBytes int `json:"log_bytes"`
	}
	if err := json.Unmarshal(j.Output, &report); err != nil || j.Status != "completed" || report.ExitCode != 0 || report.LogBytes != len("from a container\n\n") {
		t.Errorf("%+v: %s %s: %v", report, j.Status, j.Error, err)
	}
	log := testkit.Must(server.Client.JobLog(t.Context(), ids["own"], true))(t)
	text, err := io.ReadAll(log)
	testkit.Holds(t, strings.TrimSpace(string(text)) == "from a container" && j.LogAddr != "" && err == nil, "the log", j.LogAddr, text, err)
	log.Close()
	testkit.Holds(t, len(j.Steps) == 1 && j.Steps[0].Name == "RUNNING", "the steps are", j.Steps)
	j = testkit.Must(server.Client.Job(t.Context(), ids["stored"]))(t)
	if want := "exit code 137; a container that needs more memory than it may have, 67108864 bytes, is killed"; j.Status != "failed" || !strings.Contains(j.Error, want) || *j.ProcessExit != 137 || len(j.Output) == 0 {
		t.Errorf("%s %q %s", j.Status, j.Error, j.Output)
	}
}
