package webhook

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// nodeServer is a server that answers each line of a request with 200.
const nodeServer = `
const server = require("http").createServer((req, res) => {
  let lines = 0
  req.on("data", (part) => { for (let i = part.indexOf(10); i >= 0; i = part.indexOf(10, i + 1)) lines++ })
  req.on("end", () => res.end("200\n".repeat(lines)))
})
server.listen(0, "127.0.0.1", () => console.log("http://127.0.0.1:" + server.address().port))
process.stdin.on("end", () => process.exit(0)).resume()
`

// startNode starts a server in node, which ends when its standard input ends.
func startNode(b *testing.B) string {
	b.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		b.Skip("node is not installed")
	}
	node := exec.Command("node", "-e", nodeServer)
	input := testkit.Must(node.StdinPipe())(b)
	output := testkit.Must(node.StdoutPipe())(b)
	testkit.NoError(b, node.Start())
	b.Cleanup(func() {
		input.Close()
		node.Wait()
	})
	line := testkit.Must(bufio.NewReader(output).ReadString('\n'))(b)
	return strings.TrimSpace(line)
}

// BenchmarkJobs runs jobs with a server in node: 10 callers each run one batch after another.
func BenchmarkJobs(b *testing.B) {
	for _, c := range []struct {
		batch bool
		size  int
	}{{false, 10}, {true, 10}, {true, 100}, {true, 1000}} {
		b.Run(fmt.Sprintf("batch=%v/size=%d", c.batch, c.size), func(b *testing.B) {
			to := startNode(b)
			benchmark(b, to, c.batch, c.size)
		})
	}
}

// BenchmarkOverhead does the same with a server in this process, which takes about half of the time.
func BenchmarkOverhead(b *testing.B) {
	answer := strings.Repeat("200\n", 100)
	to := web(b, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, answer)
	})
	b.Run("single", func(b *testing.B) { benchmark(b, to, false, 10) })
	b.Run("batch", func(b *testing.B) { benchmark(b, to, true, 100) })
}

func benchmark(b *testing.B, to string, batch bool, size int) {
	e := executor(b, to, handler.Options{Batch: batch})
	batches := make(chan struct{})
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			jobs := make([]*client.Job, size)
			for i := range jobs {
				jobs[i] = newJob(i, "a payload of 25 bytes, or")
			}
			tasks := make([]*task.Task, size)
			var failed atomic.Int64
			for range batches {
				for i, j := range jobs {
					tasks[i] = task.New(b.Context(), j, func(end task.End) {
						if end.Code != "ok" {
							failed.Add(1)
						}
					})
				}
				e.Run(tasks)
			}
			if n := failed.Load(); n > 0 {
				b.Errorf("%d runs failed", n)
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		batches <- struct{}{}
	}
	close(batches)
	callers.Wait()
	b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
