package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/worker"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func Example() {
	c, stop := clienttest.Server()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	must(c.AddLines(ctx, []byte("apple\npear\nplum\n"), client.AddOptions{Type: "shout"}))

	var left atomic.Int32
	left.Store(3)
	w := worker.Worker{
		Client: c, Types: []string{"shout"}, Concurrency: 2,
		Handler: func(ctx context.Context, job *client.Job) (client.Outcome, error) {
			if left.Add(-1) == 0 {
				cancel() // the worker drains, reports, and Run returns
			}
			return client.TextOutput(strings.ToUpper(string(job.Payload))), nil
		},
	}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	queue := must(c.Queue(context.Background(), "default", "shout"))
	fmt.Println(queue.Counts["completed"], "completed")
	// Output: 3 completed
}
