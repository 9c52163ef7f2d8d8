package runners

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/daybookq/daybook/client"
)

const (
	// maxUnfinished: the producer posts more while at most this many jobs are unfinished.
	maxUnfinished = 150
	// lease is short, so that jobs whose runner is dead soon run again.
	lease = 2 * time.Second
)

// producer posts jobs until its context ends.
type producer struct {
	client *client.Client
	to     *account
	rng    *rand.Rand
	name   string
	posts  int
}

// run posts jobs of each type by turns. While many jobs are unfinished, it waits.
func (p *producer) run(ctx context.Context) {
	types := []string{treeType, linesType, scriptType, webType, hookType, guestType, blobType}
	for ctx.Err() == nil {
		s, err := p.client.Stats(ctx)
		if err != nil || s.Jobs["pending"]+s.Jobs["active"]+s.Jobs["deferred"] > maxUnfinished {
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		p.post(ctx, types[p.posts%len(types)])
	}
}

// post posts lines with a key, so that a repeated post creates its jobs once.
func (p *producer) post(ctx context.Context, typ string) {
	p.posts++
	n := 1 + p.rng.IntN(30)
	if typ == treeType {
		n = 1 + p.rng.IntN(4) // each job starts many processes
	}
	made := post{typ: typ, follow: p.posts/len(chains)%4 < 2 && typ != blobType, payloads: make([]string, n)}
	for i := range made.payloads {
		made.payloads[i] = fmt.Sprintf("%s-%s-%d-%d", p.name, typ, p.posts, i)
	}
	initial, most := int64(20), int64(500)
	attributes := client.Attributes{MaxAttempts: 100, LeaseMs: lease.Milliseconds(), Backoff: &client.Backoff{InitialMs: &initial, MaxMs: &most}}
	if made.follow {
		next := attributes
		attributes.OnComplete = &client.FollowOn{Type: afterType, Attributes: next}
	}
	_, err := p.client.AddLines(ctx, []byte(strings.Join(made.payloads, "\n")+"\n"), client.AddOptions{Type: typ, Attributes: attributes, Key: client.NewKey()})
	made.acknowledged = err == nil
	p.to.add(made)
}
