package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// runnerCase is a handler that does nothing, and the number of its jobs in a turn.
type runnerCase struct {
	name    string
	program string // that must be installed
	table   string // of the runner's configuration
	args    []string
	jobs    int
}

// BenchmarkRunner drains a queue with `daybook work`, whose handler does nothing, and in turns with worker.Worker and a
// handler in Go that does nothing. Both use the same server in the same minutes. So the ratio of-worker shows the cost of
// a kind of handler, whatever else the machine does. Both run before the queue is filled, and have done jobs before.
func BenchmarkRunner(b *testing.B) {
	web := ""
	if _, err := exec.LookPath("node"); err == nil {
		web = testkit.NodeServer(b)
	}
	two := []string{"--concurrency", "2"}
	for _, c := range []runnerCase{
		{"script/node", "node", `kind = "script"` + "\nlang = 'node'\nsource = 'function handle() {}'", two, 60_000},
		{"script/python", "python3", `kind = "script"` + "\nlang = 'python'\nsource = 'def handle(payload, job): pass'", two, 60_000},
		{"script/php", "php", `kind = "script"` + "\nlang = 'php'\nsource = 'function handle() {}'", two, 60_000},
		{"script/node/8Slots", "node", `kind = "script"` + "\nlang = 'node'\nsource = 'function handle() {}'", []string{"--concurrency", "8"}, 60_000},
		{"http/batch=100", "node", fmt.Sprintf("kind = 'http'\nurl = %q\noptions = { batch = true, batch_size = 100 }", web), []string{"--http-allow", strings.TrimPrefix(web, "http://")}, 100_000},
		{"http/batch=1000", "node", fmt.Sprintf("kind = 'http'\nurl = %q\noptions = { batch = true, batch_size = 1000 }", web), []string{"--http-allow", strings.TrimPrefix(web, "http://")}, 100_000},
		{"exec/cat", "cat", "kind = 'exec'\nargv = ['cat']", nil, 500},
		{"exec/lines", "sh", "kind = 'exec'\nframes = 'lines'\nshell = 'while read -r p; do echo 200; done'", nil, 40_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			if _, err := exec.LookPath(c.program); err != nil {
				b.Skip(err)
			}
			s := serve(b)
			d := &duel{B: b, server: s, client: client.New(s.URL(), client.Options{}), load: NewLoad(s.URL(), 8)}
			defer d.load.Close()
			runner := startRunner(b, s, c.table, c.args)
			stop := d.startWorker()
			defer stop()
			for typ, jobs := range map[string]int{"run": min(c.jobs, 5000), "worker": 5000} {
				testkit.NoError(b, d.load.AddTo(b.Context(), "default", typ, works.Lines(1, 100))) // it creates the queue
				d.turn(typ, jobs)
			}
			var run, worker, used time.Duration
			for b.Loop() {
				before := testkit.Must(rig.ProcessorTime(runner.Process.Pid))(b)
				run += d.turn("run", c.jobs)
				used += testkit.Must(rig.ProcessorTime(runner.Process.Pid))(b) - before
				worker += d.turn("worker", 60_000)
			}
			drained := float64(b.N * c.jobs)
			b.ReportMetric(drained/run.Seconds(), "jobs/s")
			b.ReportMetric(float64(b.N)*60_000/worker.Seconds(), "worker-jobs/s")
			b.ReportMetric(drained/run.Seconds()/(float64(b.N)*60_000/worker.Seconds()), "of-worker")
			b.ReportMetric(used.Seconds()/drained*1e6, "runner-cpu-µs/job")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// duel fills queues and waits until they are empty.
type duel struct {
	*testing.B
	server *daybooktest.Process
	client *client.Client
	load   *Load
}

// turn pauses a queue, fills it, and returns the time from its resumption until all jobs are completed.
func (d *duel) turn(typ string, jobs int) time.Duration {
	d.Helper()
	ctx := d.Context()
	must := func(err error) { d.Helper(); testkit.NoError(d, err) }
	_, err := d.client.Pause(ctx, "default", typ)
	must(err)
	before := d.completed(typ)
	for left := jobs; left > 0; left -= 1000 {
		must(d.load.AddTo(ctx, "default", typ, works.Lines(min(left, 1000), 100)))
	}
	began := time.Now()
	_, err = d.client.Resume(ctx, "default", typ)
	must(err)
	for deadline := began.Add(5 * time.Minute); d.completed(typ) < before+int64(jobs); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.Fatalf("%d of %d jobs of type %s are completed after %v", d.completed(typ)-before, jobs, typ, time.Since(began))
		}
	}
	return time.Since(began)
}

func (d *duel) completed(typ string) int64 {
	d.Helper()
	q := testkit.Must(d.client.Queue(d.Context(), "default", typ))(d)
	return q.Counts["completed"]
}

// startWorker starts a worker.Worker whose handler does nothing.
func (d *duel) startWorker() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	w := worker.Worker{
		Client: client.New(d.server.URL(), client.Options{}), Types: []string{"worker"}, Concurrency: 16, Batch: 100,
		Handler: func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, nil },
	}
	go func() { ended <- w.Run(ctx) }()
	return func() { cancel(); testkit.Check(d, <-ended) }
}

// startRunner starts `daybook work` with one handler until the end of the benchmark.
func startRunner(b *testing.B, s *daybooktest.Process, table string, args []string) *exec.Cmd {
	b.Helper()
	dir := b.TempDir()
	config := filepath.Join(dir, "work.toml")
	testkit.NoError(b, os.WriteFile(config, []byte("[handlers.run]\n"+table+"\n"), 0o600))
	args = append([]string{"work", "--server", s.URL(), "--config", config}, args...)
	runner := exec.Command(s.Binary, args...)
	runner.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DAYBOOK_") })
	runner.Env = append(runner.Env, "XDG_CACHE_HOME="+dir)
	var log strings.Builder
	runner.Stderr = &log
	testkit.NoError(b, runner.Start())
	b.Cleanup(func() {
		testkit.Check(b, runner.Process.Signal(syscall.SIGTERM))
		if err := runner.Wait(); err != nil {
			b.Errorf("the runner ended with %v\n%s", err, &log)
		}
	})
	return runner
}
