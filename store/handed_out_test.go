package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// documents returns the documents of the jobs that a claim handed out or holds.
func documents(list []runs.Run, err error) ([]job.Job, error) {
	if err != nil {
		return nil, err
	}
	return runs.Documents(list)
}

// TestHandedOutPayloads: wherever in the pages of a batch a claim begins and ends, its runs have the payloads of its
// jobs as they were posted, whether or not their lengths differ.
func TestHandedOutPayloads(t *testing.T) {
	const lines = 3000
	for _, frame := range []job.Frame{job.LineFrame, job.LenFrame} {
		for _, longest := range []int{0, 1, 9, 10, 150} {
			for _, even := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v/%d/%v", frame, longest, even), func(t *testing.T) {
					random := rand.New(rand.NewPCG(1, uint64(longest)))
					s := mustOpen(t, Options{})
					s.machine.Rules.PageBytes = 20_000
					payloads, body := make([][]byte, lines), []byte(nil)
					for i := range payloads {
						size := longest
						if !even && i > 0 {
							size = random.IntN(longest + 1)
						}
						payloads[i] = []byte(strings.Repeat(string(rune('a'+i%26)), size))
						body = frame.Append(body, payloads[i])
					}
					attributes := job.Attributes{Kind: job.Text, MaxAttempts: 9, LeaseMs: 1000, RetentionMs: 1000}
					mustApply(t, s, 1, 0, &job.Create{Frame: frame, Longest: longest, Payloads: body, Groups: []job.Group{{Lines: lines, Client: "a", Type: "x", Attributes: attributes}}})
					seq := uint64(1)
					for at := 0; at < lines; {
						seq++
						result, err := s.Apply(seq, startAt, job.Claim{Runner: "r", Max: 1 + random.IntN(700), MaxBytes: job.MaxClaimBytes})
						testkit.NoError(t, err)
						mustCommit(t, s)
						claimed := result.(*applied.Claimed)
						handed, err := s.HandedOut(claimed)
						if err != nil || len(handed) != 1 || handed[0].N != claimed.Jobs() || handed[0].First.ID.Line() != at {
							t.Fatalf("claim of %d jobs from %d on: %d runs, %v", claimed.Jobs(), at, len(handed), err)
						}
						var want []byte
						for i := range handed[0].N {
							want = frame.Append(want, payloads[at+i])
						}
						if got := bytes.Join(handed[0].Parts, nil); !bytes.Equal(got, want) {
							t.Fatalf("lines from %d on have %d bytes, want %d", at, len(got), len(want))
						}
						at += handed[0].N
					}
				})
			}
		}
	}
}

// TestHandedOutRuns: consecutive jobs share a run if they have everything but the payload in common.
func TestHandedOutRuns(t *testing.T) {
	s := mustOpen(t, Options{})
	plain := job.Attributes{Kind: job.Text, MaxAttempts: 9, LeaseMs: 1000, RetentionMs: 1000}
	other := plain
	other.TimeoutMs = 5000
	mustApply(t, s, 1, 0, &job.Create{
		Frame: job.LineFrame, Longest: 1, Payloads: []byte("a\nb\nc\nd\ne\nf\n"),
		Groups: []job.Group{{Lines: 2, Client: "a", Type: "x", Attributes: plain}, {Lines: 4, Client: "a", Type: "x", Attributes: other}},
		Unique: []job.UniqueKey{{Line: 3, Key: "k"}},
	})
	mustApply(t, s, 2, 0, &job.Create{Frame: job.NoFrame, Groups: []job.Group{{Lines: 3, Client: "a", Type: "x", Attributes: job.Attributes{MaxAttempts: 9, LeaseMs: 1000, RetentionMs: 1000}}}})
	mustApply(t, s, 3, 0, job.Claim{Runner: "r", Max: 1, MaxBytes: 100})
	mustApply(t, s, 4, 0, job.Complete{Outcomes: []job.Outcome{{ID: jobID(0, 1, 0), Code: job.Error, ExitCode: 500, Error: "broken", DelayMs: 0}}})
	mustApply(t, s, 5, 0, job.Tick{})
	result := testkit.Must(s.Apply(6, startAt, job.Claim{Runner: "r", Max: 100, MaxBytes: 100}))(t)
	mustCommit(t, s)
	handed := testkit.Must(s.HandedOut(result.(*applied.Claimed)))(t)
	var got []string
	for i := range handed {
		r := &handed[i]
		got = append(got, fmt.Sprintf("%d+%d %q key=%s error=%s timeout=%d", r.First.ID.Line(), r.N, bytes.Join(r.Parts, nil), r.First.UniqueKey, r.First.Error, r.First.TimeoutMs))
	}
	want := []string{
		`0+1 "a\n" key= error=broken timeout=0`, `1+1 "b\n" key= error= timeout=0`, `2+1 "c\n" key= error= timeout=5000`,
		`3+1 "d\n" key=k error= timeout=5000`, `4+2 "e\nf\n" key= error= timeout=5000`, `0+3 "" key= error= timeout=0`,
	}
	testkit.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
}
