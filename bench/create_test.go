package bench

import (
	"context"
	"testing"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/load/works"
)

// BenchmarkClientCreate creates jobs one by one through the Go client, from many goroutines.
func BenchmarkClientCreate(b *testing.B) {
	for _, c := range []struct {
		name string
		o    client.Options
	}{{"Joined", client.Options{}}, {"NoJoin", client.Options{NoJoin: true}}} {
		b.Run(c.name, func(b *testing.B) {
			s := serve(b)
			l := NewLoad(s.URL(), 1)
			defer l.Close()
			jobs := client.New(s.URL(), c.o)
			payload := string(works.Lines(1, 100)[:100])
			p := matrix.Point{Work: "create", Size: 100, Batch: 1, Conns: 64}
			w := workload(b, p, s, l)
			w.Round = func(ctx context.Context, callers []*matrix.Caller) error {
				return matrix.Share(ctx, callers, w.Calls, func(ctx context.Context, c *matrix.Caller) error {
					return c.Time(func() error { _, err := jobs.Create(ctx, client.TextJob("t", payload)); return err })
				})
			}
			matrix.Measure(b, p, w)
		})
	}
}
