package store

import (
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// TestClaimAnswersAreBounded: a claim's answer, a repeat of the claim with its key, and the claim's document show only
// the newest attempt of each job and the beginning of its error. They read no more than that, however long the
// histories are.
func TestClaimAnswersAreBounded(t *testing.T) {
	s := mustOpen(t, Options{})
	const jobs, runs = 100, 6
	c := plainCreate("a", "x", jobs, 5)
	c.Groups[0].MaxAttempts = 100
	mustApply(t, s, 1, 0, c)
	seq := uint64(1)
	apply := func(cmd job.Command) applied.Result {
		seq++
		return mustApply(t, s, seq, int64(seq), cmd)
	}
	for range runs {
		claimed := apply(plainClaim("r", jobs)).(*applied.Claimed)
		var outcomes []job.Outcome
		for line := range jobs {
			outcomes = append(outcomes, job.Outcome{
				ID: jobID(0, 1, line), Code: job.Error, ExitCode: 500, DelayMs: 0, Error: strings.Repeat("ü", job.MaxErrorBytes/2),
				Result: job.Result{OutputKind: job.Text, Output: []byte(strings.Repeat("o", 20_000))},
			})
		}
		apply(job.Complete{Claim: claimed.Claim, Outcomes: outcomes})
		mustCommit(t, s)
	}
	claim := plainClaim("r", jobs)
	claim.Once = job.Once{Scope: "claim r", Key: "k"}
	claimed := apply(claim).(*applied.Claimed)
	mustCommit(t, s)
	for _, way := range []struct {
		name string
		read func() ([]job.Job, error)
	}{
		{"handed out", func() ([]job.Job, error) { return documents(s.HandedOut(claimed)) }},
		{"repeated", func() ([]job.Job, error) {
			again, err := s.ClaimedBefore(&claim.Once, startAt+int64(seq))
			if err != nil {
				return nil, err
			}
			return documents(s.Held(again))
		}},
		{"read", func() ([]job.Job, error) {
			_, docs, err := s.ClaimDocument(claimed.Claim, query.Everything)
			return docs, err
		}},
	} {
		var docs []job.Job
		var err error
		used := uint64(math.MaxUint64) // the best of several runs: a read that fills Pebble's cache also allocates its blocks
		for range 3 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			docs, err = way.read()
			runtime.ReadMemStats(&after)
			used = min(used, after.TotalAlloc-before.TotalAlloc)
		}
		testkit.NoError(t, err)
		testkit.MustEqual(t, len(docs), jobs, way.name, "jobs")
		for i := range docs {
			if doc := &docs[i]; len(doc.Attempts) != 1 || len(doc.Error) != query.MaxHandedError || doc.Error != doc.Attempts[0].Error || doc.Output != nil ||
				doc.RunAttempts != runs+1 || string(doc.Payload) != "xxxxx" {
				t.Fatalf("%s: job %v has %d attempts, %d bytes of error, %d of output", way.name, doc.ID, len(doc.Attempts), len(doc.Error), len(doc.Output))
			}
		}
		testkit.Holds(t, used <= 4<<20 || testkit.Race, way.name, used, "bytes of memory were used for", jobs, "jobs")
	}
	if doc, err := s.Job(jobID(0, 1, 0)); err != nil || len(doc.Attempts) != runs || len(doc.Error) != job.MaxErrorBytes {
		t.Errorf("the job's own document has %d attempts, %v", len(doc.Attempts), err)
	}
}

// TestNoticesAreBounded: a tickle of everything that a runner holds names a bounded number of cancelled jobs, and reads
// a bounded number of spans to find them.
func TestNoticesAreBounded(t *testing.T) {
	const claims, lines = 30, 300
	for _, test := range []struct {
		name       string
		cancelled  int // jobs of each claim
		least, top int // bounds for the reported jobs
	}{
		{"many cancelled jobs", lines / 2, machine.MaxNotices, machine.MaxNotices},
		{"few cancelled jobs among many spans", 1, machine.NoticeSpans / lines, machine.NoticeSpans/lines + 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := mustOpen(t, Options{})
			seq := uint64(0)
			apply := func(cmd job.Command) applied.Result {
				seq++
				return mustApply(t, s, seq, 0, cmd)
			}
			for range claims {
				apply(plainCreate("a", "x", lines, 1))
				batch := job.NewID(startAt, seq, 0)
				claimed := apply(plainClaim("r", lines)).(*applied.Claimed)
				testkit.MustEqual(t, claimed.Jobs(), lines)
				var ended []job.Outcome
				for line := range lines {
					switch {
					case line%2 == 0: // so that each line is a span
					case line < 2*test.cancelled:
						apply(job.Move{Op: job.Cancel, Job: batch.WithLine(line)})
					default:
						ended = append(ended, job.Outcome{ID: batch.WithLine(line), Code: job.OK, ExitCode: 200, DelayMs: -1})
					}
				}
				if len(ended) > 0 {
					apply(job.Complete{Claim: claimed.Claim, Outcomes: ended})
				}
			}
			tickled := apply(job.Tickle{Runner: "r", Progress: -1}).(*applied.Tickled)
			n := len(tickled.Lost)
			testkit.Holds(t, tickled.Held == claims*lines/2 && n >= test.least && n <= test.top, "held", tickled.Held, "lost", n)
			for _, l := range tickled.Lost {
				testkit.MustEqual(t, l.Refusal, job.WasCancelled)
			}
		})
	}
}

// TestSweepsListIsBounded: the list of sweeps has all running sweeps and the newest ended ones, however many have
// ended.
func TestSweepsListIsBounded(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	under := &row.Sweep{Sweep: job.Sweep{Op: job.Cancel, Now: job.Now{Seq: 1, At: startAt}}, QueueID: 1}
	s.machine.Live.Running = append(s.machine.Live.Running, under)
	put := func(w *row.Sweep) {
		s.machine.O.Set(row.SeqKey(row.SweepTable, w.Seq), w.Encode())
		s.machine.SetTimer(row.TimerKey(startAt+job.SweepLifeMs, row.SweepTimer, w.Seq, 0, 0))
	}
	put(under)
	const ended = job.MaxPage + 500
	for seq := uint64(2); seq < 2+ended; seq++ {
		put(&row.Sweep{Sweep: job.Sweep{Op: job.Cancel, Now: job.Now{Seq: seq, At: startAt}}, QueueID: 1, FinishedAt: startAt})
	}
	mustApply(t, s, 2+ended, 0, job.Mark{})
	mustCommit(t, s)
	docs := testkit.Must(s.Sweeps())(t)
	testkit.MustEqual(t, len(docs), job.MaxPage)
	if first, second, last := docs[0], docs[1], docs[len(docs)-1]; first.ID != under.Id() || second.ID != jobID(0, ended+3-job.MaxPage, 0) || last.ID != jobID(0, 1+ended, 0) {
		t.Errorf("the list begins with %v, %v and ends with %v", first.ID, second.ID, last.ID)
	}
}
