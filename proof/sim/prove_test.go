package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// TestLies: here the disk breaks a promise, and some of a few seeds must notice. A simulation that cannot fail would
// prove nothing.
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

// TestRepetitionsUnderAKey: a request that is repeated under its idempotency key always gets the same answer.
func TestRepetitionsUnderAKey(t *testing.T) {
	s := newFixture(t, false, func(*batch) {})
	if err := s.a.created(s.b, applied.Made{}, ingest.Receipt{Seq: 1, At: 1000}, stored); err != nil {
		t.Errorf("the same answer again: %v", err)
	}
	if err := s.a.created(s.b, applied.Made{}, s.receipt(1), stored); err == nil {
		t.Error("a create that was carried out twice is not found")
	}
	c := job.Claim{Runner: "r", Max: 1, Once: job.Once{Scope: "claim r", Key: "1"}}
	claim := func(seq uint64) error {
		doc := s.jobs[0]
		doc.Claim, doc.Runner, doc.Status, doc.RunAttempts = job.NewID(1500, seq, 0), "r", job.Active, 1
		return s.a.claimed(ingest.Receipt{Seq: seq, At: 1500}, c, applied.Claimed{Claim: doc.Claim, LeaseMs: 1000, Runs: []applied.Run{{Batch: 1}}}, []job.Job{doc})
	}
	if err := errors.Join(claim(10), claim(10)); err != nil {
		t.Errorf("the same claim again: %v", err)
	}
	if claim(11) == nil {
		t.Error("a claim that was carried out twice is not found")
	}
}

// TestCutTooEarly: the simulation notices a journal that was cut too far.
func TestCutTooEarly(t *testing.T) {
	for _, tt := range []struct {
		first, durable uint64
		bad            bool
	}{{1, 0, false}, {11, 10, false}, {5, 10, false}, {12, 10, true}} {
		testkit.Equal(t, (covered(tt.first, tt.durable) != nil), tt.bad, "a journal from", tt.first, "and a store with", tt.durable)
	}
}

// TestLook: the audit notices a document that contradicts the answers.
func TestLook(t *testing.T) {
	s := newFixture(t, false, func(*batch) {})
	c := s.claim(t, 1, 1)
	s.end(t, 10, c, job.OK, applied.JobResult{Status: job.Completed})
	u := testkit.Must(s.a.audit())(t)
	good := s.jobs[0]
	good.Status, good.Code, good.ExitCode, good.Claim, good.RunAttempts, good.CompletedAt = job.Completed, job.OK, 200, c, 1, 5
	testkit.NoError(t, u.checkDocument(&good))
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
		if u.checkDocument(&doc) == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestPowerLossKeepsWhatIsDurable tests the simulated disk. Every power loss keeps synced data. Unsynced data is lost in
// some, kept in some, and torn in some.
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
		must(t, d.sync("sync", unnamed)) // syncs its bytes, but not its name

		after := filepath.Join(base, "after")
		_, err = d.afterPowerLoss(after, rand.New(rand.NewPCG(seed, 1)))
		must(t, err)
		if data, err := os.ReadFile(filepath.Join(after, "journal", "synced")); err != nil || string(data) != old {
			t.Fatalf("seed %d: the synced file is %q, %v", seed, data, err)
		}
		data, err := os.ReadFile(filepath.Join(after, "journal", "grown"))
		if err != nil || !strings.HasPrefix(string(data), old) {
			t.Fatalf("seed %d: the synced part of a file that grew is %q, %v", seed, data, err)
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
		t.Errorf("of 200 power losses, %d lost, %d kept and %d tore data that was not durable", lost, kept, torn)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	testkit.NoError(t, err)
}
