package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/proof/powerfs"
)

// trial is one cluster with its users and their knowledge.
type trial struct {
	*rig.Nodes
	name    string
	size    int // nodes
	l       *ledger
	o       *load
	rng     *rand.Rand
	gaps    *gaps
	net     *network               // nil: the nodes are on loopback
	disks   map[string]*powerfs.FS // by their directories; empty: the data are on an ordinary disk
	longest time.Duration          // between the harm of a fault and its repair
	say     func(format string, args ...any)
}

// mostConnections bounds the idle connections to one node.
const mostConnections = 300

// newHTTP returns the HTTP client of all users of a trial. A nil dial means that of net/http.
func newHTTP(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConns: 3 * mostConnections, MaxIdleConnsPerHost: mostConnections}}
}

// between returns a random time.
func (t *trial) between(low, high time.Duration) time.Duration {
	return low + time.Duration(t.rng.Int64N(int64(high-low)+1))
}

// begin starts the cluster and its users.
func (t *trial) begin() error {
	if err := t.Found(t.size); err != nil {
		return err
	}
	t.o = newLoad(t.l, t.name, t.URLs, t.HTTP, t.rng.Uint64())
	t.o.start(t.List)
	return t.awaitLoad()
}

// awaitLoad waits until some more creates and completions are acknowledged. Without load a cluster could lose nothing.
func (t *trial) awaitLoad() error {
	completed := func() (n int) {
		t.l.tally(func(c *tally) { n = c.Completed })
		return n
	}
	acked, before := t.o.acked.Load(), completed()
	return t.Await("users are served", func(context.Context) error {
		if a, c := t.o.acked.Load()-acked, completed()-before; a < 10 || c < 10 {
			return fmt.Errorf("%d creates and %d completions were acknowledged", a, c)
		}
		return nil
	})
}

// drained waits until all jobs are completed.
func (t *trial) drained() error {
	least := int64(-1)
	for {
		before := least
		err := t.Await("another job is completed", func(ctx context.Context) error {
			s, err := t.List[0].Client.Stats(ctx)
			left := s.Jobs["pending"] + s.Jobs["active"] + s.Jobs["deferred"]
			if err == nil && left > 0 && left >= before && before >= 0 {
				err = fmt.Errorf("%d jobs are left", left)
			}
			if err == nil {
				least = left
			}
			return err
		})
		if err != nil || least == 0 {
			return err
		}
	}
}

// finish ends the load, and judges what the nodes have.
func (t *trial) finish() error {
	if err := t.Healthy(); err != nil {
		return err
	}
	if err := t.o.finish(t.drained); err != nil {
		return err
	}
	if err := t.audit(); err != nil {
		return err
	}
	for _, n := range t.List {
		if err := t.Stop(n); err != nil {
			return err
		}
		t.checkData(n)
	}
	var errs []error
	for _, problem := range t.l.wrong {
		errs = append(errs, errors.New(problem))
	}
	return errors.Join(errs...)
}

// evidence keeps a copy of the data and the logs of a trial that has failed.
func (t *trial) evidence() string {
	dir, err := os.MkdirTemp("", "daybook-cluster-evidence-")
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(t.Dir))
	}
	if err != nil {
		return err.Error()
	}
	return dir
}
