//go:build unix

package check

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

// The workers of the pages about moving, and a job for each.
var movingWorkers = []struct {
	page, interpreter, file string
	kind, payload           string // of the job
}{
	{"from-celery.md", "python3", "worker.py", "tasks.add", `{"args":[2,3]}`},
	{"from-sqs.md", "python3", "worker.py", "resize", `"cat.png"`},
	{"from-sidekiq.md", "ruby", "worker.rb", "ResizeJob", `["cat.png",80]`},
	{"from-bullmq.md", "node", "worker.mjs", "resize", `{"file":"cat.png","width":80}`},
}

// TestMovingWorkers: a worker ends its job in one run although the answer to its claim is lost, its first tickle is
// refused with 503, its reports are refused with 503 until it has tickled twice more, and the answer to its report is
// lost.
func TestMovingWorkers(t *testing.T) {
	root, _ := pages(t)
	binary, err := daybooktest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range movingWorkers {
		t.Run(w.page, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(w.interpreter); err != nil {
				t.Skipf("skipped: %s is missing; scripts/tools installs it", w.interpreter)
			}
			server := &daybooktest.Process{Binary: binary, Data: t.TempDir(), Args: []string{"--log-level", "warn"}, Log: os.Stderr}
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Stop(); err != nil {
					t.Error(err)
				}
			})
			steps, err := Steps(root, "docs/how-to/"+w.page, "")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, w.file)
			for _, s := range steps {
				if s.File == w.file {
					write(t, file, s.Text)
				}
			}
			between := newFaults(t, server.URL())
			var printed bytes.Buffer
			worker := exec.Command(w.interpreter, file)
			worker.Dir, worker.Stdout, worker.Stderr = dir, &printed, &printed
			worker.Env = append(os.Environ(), "DAYBOOK_SERVER="+between.URL)
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- worker.Wait() }()
			t.Cleanup(func() {
				worker.Process.Signal(syscall.SIGTERM)
				select {
				case err := <-ended:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(time.Minute):
					worker.Process.Kill()
					<-ended
					t.Error("the worker does not end after SIGTERM")
				}
				if t.Failed() {
					t.Logf("%s prints\n%s", w.file, printed.String())
				}
			})

			c := client.New(server.URL(), client.Options{})
			job := client.JSONJob(w.kind, []byte(w.payload))
			job.LeaseMs = (12 * time.Second).Milliseconds()
			created, err := c.Create(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			output, err := c.Output(ctx, created.ID, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			j, err := c.Job(ctx, created.ID)
			if err != nil {
				t.Fatal(err)
			}
			if output.Status != "completed" || j.RunAttempts != 1 {
				t.Errorf("the job is %s after %d runs, and not completed after one", output.Status, j.RunAttempts)
			}
			select { // the job has ended when the server has the report; the answer is lost later
			case <-between.reported:
			case <-ctx.Done():
			}
			between.lock.Lock()
			defer between.lock.Unlock()
			if !between.claimLost || !between.tickleRefused || between.tickles < 2 || !between.reportLost {
				t.Errorf("not all faults were injected: claim %v, tickle %v, %d tickles, report %v", between.claimLost, between.tickleRefused, between.tickles, between.reportLost)
			}
		})
	}
}

// faults is a proxy to a server. It injects each fault of TestMovingWorkers once.
type faults struct {
	*httptest.Server
	lock                                 sync.Mutex
	claimLost, tickleRefused, reportLost bool
	tickles                              int           // tickles that the server has carried out
	reported                             chan struct{} // closed when reportLost is set
}

func newFaults(t *testing.T, server string) *faults {
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{reported: make(chan struct{})}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(answer *http.Response) error {
		f.lock.Lock()
		defer f.lock.Unlock()
		path, ok := answer.Request.URL.Path, answer.StatusCode == http.StatusOK
		switch {
		case strings.HasSuffix(path, "/claim") && ok && !f.claimLost:
			f.claimLost = true
			return errors.New("the answer is lost")
		case strings.HasSuffix(path, "/complete") && ok && !f.reportLost:
			f.reportLost = true
			close(f.reported)
			return errors.New("the answer is lost")
		case strings.HasSuffix(path, "/tickle") && ok:
			f.tickles++
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // ends the connection
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.lock.Lock()
		refuse := false
		switch {
		case strings.HasSuffix(r.URL.Path, "/tickle"):
			refuse, f.tickleRefused = !f.tickleRefused, true
		case strings.HasSuffix(r.URL.Path, "/complete"):
			refuse = f.tickles < 2
		}
		f.lock.Unlock()
		if refuse {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}
