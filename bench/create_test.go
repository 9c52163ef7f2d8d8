package bench

import (
	"context"
	"testing"

	"github.com/daybookq/daybook/client"
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
			payload := string(Lines(1, 100)[:100])
			drive(b, l, 64, 1, func(ctx context.Context, _ int, times *Latencies) error {
				return times.Time(func() error {
					_, err := jobs.Create(ctx, client.TextJob("t", payload))
					return err
				})
			})
		})
	}
}
