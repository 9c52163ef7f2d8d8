package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// TestLies: a simulation that cannot fail proves nothing. Here the disk breaks a promise, and some of a few seeds must notice.
func TestLies(t *testing.T) {
	dir := memory(t)
	for _, l := range []lie{fsyncLies, dirSyncLies} {
		t.Run(string(l), func(t *testing.T) {
			noticed := 0
			const seeds = 12
			for seed := uint64(1); seed <= seeds; seed++ {
				if r := play(t, dir, seed, l, io.Discard); r.Error != "" {
					noticed++
				}
			}
			t.Logf("%d of %d seeds noticed", noticed, seeds)
			if noticed < seeds/3 {
				t.Errorf("only %d of %d seeds noticed that %s", noticed, seeds, l)
			}
		})
	}
}

// told is a hand-made account of one batch of two jobs, to be held against an audit.
type told struct {
	a    *account
	seq  uint64
	at   int64
	jobs [2]job.Job
}

func tell(t *testing.T) *told {
	t.Helper()
	s := &told{a: newAccount(), seq: 1, at: 1000}
	b := &batch{tag: "batch-1", payloads: []string{"batch-1/0/x", "batch-1/1/y"}}
	g := job.Group{Lines: 2, Client: "c", Type: "t", Kind: job.Text, MaxAttempts: 2, LeaseMs: 1000, RetentionMs: 1000}
	b.groups = []*job.Group{&g, &g}
	s.a.batches[b.tag] = b
	s.a.created(b, store.Made{}, ingest.Receipt{Seq: 1, At: 1000}, stored)
	for i := range s.jobs {
		s.jobs[i] = job.Job{ID: b.id.WithLine(i), Batch: b.id, Client: "c", Type: "t", Kind: job.Text, MaxAttempts: 2, LeaseMs: 1000, Payload: []byte(b.payloads[i])}
	}
	return s
}

func (s *told) receipt(after int64) ingest.Receipt {
	s.seq++
	s.at += after
	return ingest.Receipt{Seq: s.seq, At: s.at}
}

// claim hands out job 0 and returns the claim.
func (s *told) claim(t *testing.T, after int64, attempt int) job.ID {
	t.Helper()
	r := s.receipt(after)
	doc := s.jobs[0]
	doc.Claim, doc.Runner, doc.Status, doc.RunAttempts = job.NewID(r.At, r.Seq, 0), "r", job.Active, attempt
	answer := store.Claimed{Claim: doc.Claim, LeaseMs: 1000, Runs: []store.Run{{Batch: 1}}}
	if err := s.a.claimed(r, job.Claim{Runner: "r", Max: 1}, answer, []job.Job{doc}); err != nil {
		t.Fatal(err)
	}
	return doc.Claim
}

func (s *told) end(t *testing.T, after int64, claim job.ID, code job.Code, result store.JobResult) {
	t.Helper()
	result.ID = s.jobs[0].ID
	c := job.Complete{Claim: claim, Outcomes: []job.Outcome{{ID: result.ID, Code: code, ExitCode: code.DefaultExitCode()}}}
	if err := s.a.completed(s.receipt(after), c, store.Ended{Results: []store.JobResult{result}}); err != nil {
		t.Fatal(err)
	}
}

// TestAudit: the audit finds each broken promise in a doctored account, and nothing in an honest one.
func TestAudit(t *testing.T) {
	granted := func(s job.Status) store.JobResult { return store.JobResult{Status: s} }
	for _, tt := range []struct {
		name string
		want string // in the error; "" for an honest account
		do   func(t *testing.T, s *told)
	}{
		{"honest", "", func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.Retry, granted(job.Deferred))
			c = s.claim(t, 10, 2)
			s.end(t, 10, c, job.OK, granted(job.Completed))
			s.end(t, 10, c, job.OK, granted(job.Completed)) // again
		}},
		{"handed out again when the lease is over", "", func(t *testing.T, s *told) {
			old := s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
			s.end(t, 1, old, job.OK, store.JobResult{Refusal: job.ClaimLost})
		}},
		{"handed out twice", "before the lease", func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 999, 2)
		}},
		{"handed out after its end", "handed out after", func(t *testing.T, s *told) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, granted(job.Completed))
			s.claim(t, 5000, 2)
		}},
		{"one attempt too many", "runs 3 times of 2", func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 3)
		}},
		{"an attempt that is not counted", "after attempt 1", func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 1)
		}},
		{"a stale claim ends a job", "was handed to claim", func(t *testing.T, s *told) {
			old := s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
			s.end(t, 1, old, job.OK, granted(job.Completed))
		}},
		{"a stale claim tickles a job", "is held by", func(t *testing.T, s *told) {
			old := s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
			s.a.tickled(s.receipt(1), job.Tickle{Claim: old, IDs: []job.ID{s.jobs[0].ID}}, 0, store.Tickled{Held: 1})
		}},
		{"a job is taken from its holder", "before its lease is over", func(t *testing.T, s *told) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, store.JobResult{Refusal: job.ClaimLost})
		}},
		{"a tickle counts for nothing", "before the lease", func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.a.tickled(s.receipt(500), job.Tickle{Claim: c}, 0, store.Tickled{Held: 1})
			s.claim(t, 600, 2)
		}},
		{"an outcome that differs is taken", "with another outcome", func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.OK, granted(job.Completed))
			s.end(t, 10, c, job.Fail, granted(job.Failed))
		}},
		{"ended into the wrong status", "and not failed", func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.end(t, 10, s.claim(t, 1000, 2), job.Retry, granted(job.Deferred))
		}},
		{"a paused queue hands out", "paused queue", func(t *testing.T, s *told) {
			s.a.paused(s.receipt(1), job.Pause{Client: "c", Type: "t", Paused: true})
			s.claim(t, 1, 1)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t)
			tt.do(t, s)
			_, err := s.a.audit()
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) && tt.want != "" {
				t.Errorf("the audit says %v, want %q", err, tt.want)
			}
		})
	}
}

// TestLook: a document that contradicts the answers is found.
func TestLook(t *testing.T) {
	s := tell(t)
	c := s.claim(t, 1, 1)
	s.end(t, 10, c, job.OK, store.JobResult{Status: job.Completed})
	u, err := s.a.audit()
	if err != nil {
		t.Fatal(err)
	}
	good := s.jobs[0]
	good.Status, good.Code, good.ExitCode, good.Claim, good.RunAttempts, good.CompletedAt = job.Completed, job.OK, 200, c, 1, 5
	if err := u.look(&good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*job.Job){
		"undone":           func(d *job.Job) { d.Status = job.Pending },
		"other outcome":    func(d *job.Job) { d.ExitCode = 201 },
		"other payload":    func(d *job.Job) { d.Payload = []byte("batch-1/0/X") },
		"strange payload":  func(d *job.Job) { d.Payload = []byte("batch-2/0/x") },
		"other line":       func(d *job.Job) { d.ID = d.ID.WithLine(1) },
		"other client":     func(d *job.Job) { d.Client = "d" },
		"too many runs":    func(d *job.Job) { d.RunAttempts = 3 },
		"by another claim": func(d *job.Job) { d.Claim = job.NewID(1, 99, 0) },
	} {
		doc := good
		change(&doc)
		if u.look(&doc) == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestPowerLossKeepsWhatIsDurable tries the disk by itself: what was synced is there after every power loss, what was not goes in some, stays
// in others, and is torn in yet others.
func TestPowerLossKeepsWhatIsDurable(t *testing.T) {
	dir := memory(t)
	lost, kept, torn := 0, 0, 0
	for seed := range uint64(200) {
		base := filepath.Join(dir, fmt.Sprint(seed))
		root := filepath.Join(base, "now")
		folder := filepath.Join(root, "journal")
		must(t, os.MkdirAll(folder, 0o750))
		d, err := newDisk(root, rand.New(rand.NewPCG(seed, 0)), honest)
		must(t, err)
		d.fault = func(string, string) error { return nil }

		synced, grown, unnamed := filepath.Join(folder, "synced"), filepath.Join(folder, "grown"), filepath.Join(folder, "unnamed")
		old, added := strings.Repeat("a", 1000), strings.Repeat("b", 3000)
		for _, path := range []string{synced, grown} {
			must(t, os.WriteFile(path, []byte(old), 0o640))
			must(t, d.sync("sync", path))
		}
		must(t, d.sync("sync", folder))
		must(t, os.WriteFile(grown, []byte(old+added), 0o640))
		must(t, os.WriteFile(unnamed, []byte(old), 0o640))
		must(t, d.sync("sync", unnamed)) // its bytes, not its name

		after := filepath.Join(base, "after")
		_, err = d.afterPowerLoss(after, rand.New(rand.NewPCG(seed, 1)))
		must(t, err)
		if data, err := os.ReadFile(filepath.Join(after, "journal", "synced")); err != nil || string(data) != old {
			t.Fatalf("seed %d: what was synced is %q, %v", seed, data, err)
		}
		data, err := os.ReadFile(filepath.Join(after, "journal", "grown"))
		if err != nil || !strings.HasPrefix(string(data), old) {
			t.Fatalf("seed %d: what was synced of a file that grew is %q, %v", seed, data, err)
		}
		switch string(data) {
		case old:
			lost++
		case old + added:
			kept++
		default:
			torn++
		}
		if data, err := os.ReadFile(filepath.Join(after, "journal", "unnamed")); err == nil && string(data) != old {
			t.Fatalf("seed %d: a file whose name stayed has %q", seed, data)
		}
	}
	if lost < 20 || kept < 20 || torn < 20 {
		t.Errorf("of 200 power losses %d lost, %d kept and %d tore what was not durable", lost, kept, torn)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
