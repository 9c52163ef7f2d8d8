package crash

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestChains: the history notices chained jobs that are lost, torn or doubled, and follow-on jobs that cannot exist.
// TestHistories shows the same for the model of the job before them.
func TestChains(t *testing.T) {
	source, other := job.NewID(1000, 7, 0), job.NewID(1000, 8, 3)
	ids := []job.ID{job.NewID(2000, 9, 0), job.NewID(2000, 9, 1), job.NewID(2000, 9, 2), job.NewID(2000, 10, 0)}
	for name, tt := range map[string]struct {
		notice string // "": it finds no error
		do     func(u *user, ch *chain)
	}{
		"a chain that exists": {"", func(u *user, ch *chain) {
			ch.answered(u.h, &reply{}, done)
			for i, p := range ch.posts {
				u.h.seen(ids[i], p.payload(0))
				u.h.seen(ids[i], p.payload(0))
			}
		}},
		"a chain without an answer that does not exist": {"", func(u *user, ch *chain) { ch.answered(u.h, &reply{}, lost) }},
		"a lost chain": {"of them exist", func(u *user, ch *chain) { ch.answered(u.h, &reply{}, done) }},
		"a torn chain without an answer": {"of them exist", func(u *user, ch *chain) {
			ch.answered(u.h, &reply{}, lost)
			u.h.seen(ids[0], ch.posts[0].payload(0))
		}},
		"a doubled chain": {"was stored twice", func(u *user, ch *chain) {
			for i, p := range ch.posts {
				u.h.seen(ids[i], p.payload(0))
			}
			u.h.seen(ids[3], ch.posts[0].payload(0))
		}},
		"jobs that follow two runs": {"", func(u *user, _ *chain) {
			for i, output := range []string{"<out>" + source.String() + " 1", "<out>" + source.String() + " 2", "null"} {
				u.h.seenNext(ids[i], "tag 0", []byte(output))
				u.h.seenNext(ids[i], "tag 0", []byte(output))
			}
		}},
		"two jobs that follow the same run": {"follow the same run", func(u *user, _ *chain) {
			u.h.seenNext(ids[0], "tag 0", []byte("<out>"+source.String()+" 1"))
			u.h.seenNext(ids[3], "tag 0", []byte("<out>"+source.String()+" 1"))
		}},
		"the output of another job": {"is no output of that job", func(u *user, _ *chain) {
			u.h.seenNext(ids[0], "tag 0", []byte("<out>"+other.String()+" 1"))
		}},
		"another payload than before": {"and had", func(u *user, _ *chain) {
			u.h.seenNext(ids[0], "tag 0", nil)
			u.h.seenNext(ids[0], "tag 0", []byte("<out>"+source.String()+" 1"))
		}},
		"a job that follows one without an on_complete": {"has no on_complete", func(u *user, ch *chain) {
			u.h.seenNext(ids[0], ch.posts[0].tag+" 0", nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(newHistory(), "http://nowhere.invalid", "queue", 1)
			p := &post{tag: "tag", form: asArray, lines: 1, follows: true, first: source, maxAttempts: 3, leaseMs: minLeaseMs}
			u.h.posts[p.tag], u.h.jobs[source] = p, p
			rng := rand.New(rand.NewPCG(1, 0))
			var ch *chain
			for ch == nil || len(ch.posts) < 2 {
				delete(u.h.chains, source)
				ch = u.newChain(rng, source, outcome{code: "ok"})
			}
			tt.do(u, ch)
			u.h.countChains()
			got := strings.Join(u.h.wrong, "\n")
			testkit.Holds(t, (tt.notice != "" || got == "") && strings.Contains(got, tt.notice), "the history reports", got, "want", tt.notice)
		})
	}
}
