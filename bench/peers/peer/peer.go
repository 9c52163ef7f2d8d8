package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/process"
)

// Drivers returns a driver for each peer. work is a directory that outlasts the turns; the caller removes it.
func Drivers(work string) []measure.Driver {
	return []measure.Driver{
		redis{}, rueidisLibrary{}, beanstalkd{}, &river{work: work}, nats{}, asynqLibrary{}, queued{}, faktory{}, echo{},
	}
}

// find returns the path of a program. Its error is ErrMissing, and names the program.
func find(program string, places ...string) (string, error) {
	path, err := process.Find(program, places...)
	if err != nil {
		return "", fmt.Errorf("%w: %w; run `make peers`", measure.ErrMissing, err)
	}
	return path, nil
}

const (
	queueName = "jobs"
	// fillers is how many callers fill a queue at once.
	fillers = 16
)

// payload is what every job of a peer has. Redis, PostgreSQL and the others do not compress it.
var payload = strings.Repeat("Qx7-", measure.PayloadBytes/4)

// fill creates jobs by several connections.
func fill(ctx context.Context, s measure.Session, jobs, batch int) error {
	var left atomic.Int64
	left.Store(int64(jobs))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for i := range fillers {
		group.Go(func() {
			c, err := s.Dial(ctx, i)
			if err != nil {
				cancel(err)
				return
			}
			defer c.Close()
			for {
				n := int(left.Add(-int64(batch))) + batch
				if n <= 0 {
					return
				}
				if err := c.Create(ctx, min(n, batch)); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

var errLostJobs = errors.New("the server returned an answer of another form than expected")
