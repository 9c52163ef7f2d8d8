package container

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

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
