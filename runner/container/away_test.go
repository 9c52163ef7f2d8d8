package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	daybook "github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

var errNoServer = fmt.Errorf("the test: %w", daybook.ErrUnavailable)

// TestServerIsAway: if the server is unreachable when the input is pulled, the job keeps its attempt. If it is
// unreachable after the container has run, the whole output and log are stored when it is back.
func TestServerIsAway(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, nil)
		r.engine.pause, r.engine.keeper.Pause = time.Millisecond, time.Millisecond
		r.pullErr = errNoServer
		end := r.run(t.Context(), guest("upper"), `"Input":{"Name":"in","Patterns":["*"]}`, handler.Options{})
		testkit.Holds(t, end.Unget, end)
		r.pullErr = errors.New("refused")
		r.want(r.run(t.Context(), guest("upper"), `"Input":{"Name":"in","Patterns":["*"]}`, handler.Options{}), "error", "pull the fileset in: refused")

		pushes, puts := 0, 0
		r.pushErr = func() error {
			if pushes++; pushes < 4 {
				return errNoServer
			}
			return nil
		}
		r.putErr = func() error {
			if puts++; puts < 3 {
				return &daybook.Error{Status: http.StatusServiceUnavailable, Code: "not_ready"}
			}
			return nil
		}
		end = r.run(t.Context(), guest("spew", "300000"), `"Output":{"Name":"out","Patterns":["*"]}`, handler.Options{})
		r.want(end, "ok", "")
		got := r.report(end)
		log := r.blobs[got.LogAddr]
		testkit.Holds(t, pushes == 4 && puts == 3 && got.Output != nil && len(log) >= 128<<10 && strings.HasPrefix(log, "the beginning\nxxx") &&
			strings.HasSuffix(log, "xxx\nthe end\n"), pushes, "pushes", puts, "puts", got, "a log of", len(log), "bytes")

		r.pushErr = func() error { return &daybook.Error{Status: http.StatusInsufficientStorage, Code: "disk_full"} }
		end = r.run(t.Context(), guest("exit", "0"), `"Output":{"Name":"out","Patterns":["*"]}`, handler.Options{})
		r.want(end, "error", "push the fileset out: 507 disk_full")
		testkit.Holds(t, r.report(end).Output == nil, string(end.Output))

		ctx, cancel := context.WithCancelCause(t.Context())
		r.pushErr = func() error { cancel(worker.ErrLeaseLost); return errNoServer }
		end = r.run(ctx, guest("exit", "0"), `"Output":{"Name":"out","Patterns":["*"]}`, handler.Options{})
		r.want(end, "error", "the run was ended: "+worker.ErrLeaseLost.Error())
		stats := r.engine.Stats()
		want := map[string]int64{becauseServerAway: 1, pullFileset: 1, pushFileset: 1, becauseNotAwaited: 1}
		testkit.Holds(t, maps.Equal(stats.Failures, want), "the reasons are", stats.Failures, "want", want)
		if want := map[string]int64{"returned": 1, "error": 3, "ok": 1}; !maps.Equal(stats.Ended, want) || stats.Running != 0 || stats.LogBytes < 290_000 || stats.LogBytesKept < 128<<10 || stats.LogBytesKept > 129<<10 {
			t.Errorf("the ends are %v, want %v; %+v", stats.Ended, want, stats)
		}
	})
}

// fakeEngine returns an Engine that talks to answer, and a function that runs a job with it.
func fakeEngine(t *testing.T, answer http.HandlerFunc) (*Engine, func(config, filesets string) task.End) {
	socket := filepath.Join(t.TempDir(), "sock")
	listener := testkit.Must(net.Listen("unix", socket))(t)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			w.Header().Set("Api-Version", "1.44")
			return
		}
		answer(w, r)
	})}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
	docker := testkit.Must(client.New(client.WithHost("unix://" + socket)))(t)
	images := testkit.Must(ParseImages([]string{"docker.io/library/a:*"}))(t)
	set := Settings{Images: images, Workspaces: filepath.Join(t.TempDir(), "w"), Filesets: newServer()}
	testkit.NoError(t, set.check())
	w := testkit.Must(openWorkspaces(set.Workspaces))(t)
	e := &Engine{Settings: set, docker: docker, workspaces: w, pause: time.Millisecond, patience: 20 * time.Second, orphanPause: time.Millisecond}
	return e, func(config, filesets string) (end task.End) {
		x := &Executor{engine: e, images: images, timeout: time.Minute}
		payload := `{"Container":{"Config":{"Image":"a"` + config + `}},"Fileset":{` + filesets + `}}`
		x.Run([]*task.Task{task.New(t.Context(), &daybook.Job{Payload: []byte(payload)}, func(e task.End) { end = e })})
		return end
	}
}

// TestEngineEnds: if the engine exits before the container has started, the job keeps its attempt.
func TestEngineEnds(t *testing.T) {
	asked := make(chan string, 100)
	e, run := fakeEngine(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path; panic(http.ErrAbortHandler) })
	t.Cleanup(func() { e.Close() })
	end := run("", "")
	testkit.Holds(t, end.Unget && len(asked) != 0 && strings.Contains(<-asked, "/images/"), end)
}

// TestEngineHangs: if the engine answers nothing but pings, the job keeps its attempt.
func TestEngineHangs(t *testing.T) {
	e, run := fakeEngine(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	t.Cleanup(func() { e.Close() })
	e.patience = 50 * time.Millisecond
	end := run("", "")
	testkit.Holds(t, end.Unget, end)
	got := e.Stats().Failures
	testkit.Equal(t, got[becauseEngineAway], 1, "the reasons", got)
}

// TestDiskIsFull: if the disk is full before the container has started, the job keeps its attempt.
func TestDiskIsFull(t *testing.T) {
	e, run := fakeEngine(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"Id":"sha256:1","Config":{}}`) })
	t.Cleanup(func() { e.Close() })
	for _, err := range []error{errFull, syscall.ENOSPC, syscall.EDQUOT} {
		e.Filesets.(*server).pullErr = fmt.Errorf("the test: %w", err)
		end := run("", `"Input":{"Name":"in"}`)
		testkit.Holds(t, end.Unget, err, end)
	}
	got := e.Stats().Failures
	testkit.Equal(t, got[becauseDiskFull], 3, "the reasons", got)
}

// TestRegistryIsAway: if the registry does not answer, the job keeps its attempt, whatever the engine's error says. If
// the registry answers that the image does not exist, the attempt counts.
func TestRegistryIsAway(t *testing.T) {
	var status int
	var text string
	e, run := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !strings.HasSuffix(r.URL.Path, "/images/create"):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"No such image"}`)
		case status == http.StatusOK: // the stream has the error
			fmt.Fprintf(w, "{\"status\":\"Pulling\"}\n{\"errorDetail\":{\"message\":%q},\"error\":%[1]q}\n", text)
		default:
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"message":%q}`, text)
		}
	})
	e.Pull = true
	for _, c := range []struct {
		text string
		away bool
	}{
		{`Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host`, true},
		{`initializing source docker://a: pinging container registry a: Get "https://a/v2/": dial tcp 127.0.0.1:1: connect: connection refused`, true},
		{`Get "https://registry-1.docker.io/v2/": net/http: TLS handshake timeout`, true},
		{`received unexpected HTTP status: 503 Service Unavailable`, true},
		{`toomanyrequests: You have reached your pull rate limit`, true},
		{`unexpected EOF`, true},
		{`manifest for docker.io/library/a:latest not found: manifest unknown: manifest unknown`, false},
		{`pull access denied for a, repository does not exist or may require 'docker login'`, false},
		{`reading manifest latest in docker.io/library/a: unauthorized: authentication required`, false},
		{`no matching manifest for linux/amd64 in the manifest list entries`, false},
		{`something new`, false},
	} {
		for _, status = range []int{http.StatusOK, http.StatusInternalServerError} {
			text = c.text
			end := run("", "")
			testkit.Holds(t, end.Unget == c.away && (end.Unable != "") == c.away && (c.away || end.Code == "error"), status, c.text, end)
		}
	}
	got := e.Stats().Failures
	testkit.Holds(t, got[becauseRegistry] == 12 && got[pullImage] == 10, got)
}

// removals is a fake engine. It has the image and creates containers, but removes none while stuck is set.
type removals struct {
	stuck   atomic.Bool
	create  http.HandlerFunc // answers the creation
	missing atomic.Bool      // no container exists
	tries   atomic.Int64
	removed atomic.Int64
}

func (f *removals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodDelete:
		f.tries.Add(1)
		switch {
		case f.stuck.Load():
			panic(http.ErrAbortHandler)
		case f.missing.Load():
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"none"}`)
		default:
			f.removed.Add(1)
			f.missing.Store(true)
			w.WriteHeader(http.StatusNoContent)
		}
	case strings.HasSuffix(r.URL.Path, "/containers/create"):
		f.create(w, r)
	case strings.Contains(r.URL.Path, "/images/"):
		fmt.Fprint(w, `{"Id":"sha256:1","Config":{}}`)
	default:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"message":"the test refuses it"}`)
	}
}

func created(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"Id":"c","Warnings":[]}`)
}

// TestOrphans: when the engine is back, the runner removes a container that it could not remove before, without another
// job. The workspace stays until then.
func TestOrphans(t *testing.T) {
	f := &removals{create: created}
	f.stuck.Store(true)
	e, run := fakeEngine(t, f.ServeHTTP)
	end := run("", "")
	testkit.Holds(t, end.Code == "error" && strings.Contains(end.Error, "read the output of the container"), end)
	instance := e.workspaces.path(e.workspaces.instance)
	tries := f.tries.Load()
	testkit.Eventually(t, "the runner tries again", func() bool { return f.tries.Load() > tries })
	testkit.Equal(t, entries(t, instance), 1, "workspaces are there while the container")
	f.stuck.Store(false)
	testkit.Eventually(t, "the workspace is removed", func() bool { return entries(t, instance) == 0 })
	testkit.Equal(t, f.removed.Load(), 1, "containers were removed")
	testkit.Check(t, e.Close())
	testkit.Fails(os.Lstat(instance))(t)
}

// TestOrphansAtTheEnd: a runner that stops leaves the files of an orphan to the next runner.
func TestOrphansAtTheEnd(t *testing.T) {
	f := &removals{create: created}
	f.stuck.Store(true)
	e, run := fakeEngine(t, f.ServeHTTP)
	run("", "")
	testkit.Check(t, e.Close())
	testkit.Equal(t, entries(t, e.workspaces.path(e.workspaces.instance)), 1, "workspaces are left")
	next := testkit.Must(openWorkspaces(filepath.Dir(e.workspaces.path(e.workspaces.instance))))(t)
	ended, err := next.ended()
	testkit.Holds(t, err == nil && len(ended) == 1, len(ended), "runners have ended", err)
	for _, lock := range ended {
		lock.Close()
	}
	testkit.Check(t, next.close())
}

// TestLateCreate: a container that the engine creates after it failed to answer is removed.
func TestLateCreate(t *testing.T) {
	f := &removals{create: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}
	f.missing.Store(true)
	e, run := fakeEngine(t, f.ServeHTTP)
	end := run("", "")
	testkit.Holds(t, end.Unget, end)
	testkit.Equal(t, entries(t, e.workspaces.path(e.workspaces.instance)), 0, "workspaces are there, and the container")
	tries := f.tries.Load()
	testkit.Eventually(t, "the runner tries again", func() bool { return f.tries.Load() > tries+1 })
	f.missing.Store(false) // now the engine has created it
	testkit.Eventually(t, "the container is removed", func() bool { return f.removed.Load() == 1 })
	testkit.Eventually(t, "there are no orphans", func() bool {
		e.orphans.mu.Lock()
		defer e.orphans.mu.Unlock()
		return len(e.orphans.list) == 0 && !e.orphans.running
	})
	testkit.Check(t, e.Close())
}

// TestTooManyOrphans: if there are too many orphans, jobs go back to their queue before a container is created.
func TestTooManyOrphans(t *testing.T) {
	f := &removals{create: created}
	f.stuck.Store(true)
	e, run := fakeEngine(t, f.ServeHTTP)
	t.Cleanup(func() { e.Close() })
	for range maxOrphans - 1 {
		e.orphaned(&orphan{name: "x"}, errAway)
	}
	end := run("", "")
	testkit.Holds(t, !end.Unget, "below the bound", end)
	end = run("", "")
	testkit.Holds(t, end.Unget, "above the bound", end)
}
