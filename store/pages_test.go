package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// TestSizesOfShortLines: reading eight bytes at a time finds the same lengths as a walk from line to line.
func TestSizesOfShortLines(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		var page, want []byte
		longest := 1 + random.IntN(127)
		n := 1 + random.IntN(40)
		for range n {
			line := make([]byte, 1+random.IntN(longest))
			for i := range line {
				// Most bytes are close to the newline in value, or have the highest bit set.
				for line[i] = '\n'; line[i] == '\n'; {
					line[i] = []byte{'\n' - 1, '\n' + 1, '\n' | 0x80, 0, 0xff, 0x8b, byte(random.Uint32())}[random.IntN(7)]
				}
			}
			page = job.LineFrame.Append(page, line)
			want = append(want, byte(len(line)))
		}
		testkit.MustEqual(t, string(row.EncodeSizes(job.LineFrame, page, n, longest)), string(want), page)
		for name, bad := range map[string]func(){
			"a line less":       func() { row.EncodeSizes(job.LineFrame, page, n+1, longest) },
			"a line more":       func() { row.EncodeSizes(job.LineFrame, page, n-1, longest) },
			"no newline at end": func() { row.EncodeSizes(job.LineFrame, append(page[:len(page):len(page)], 'x'), n, longest) },
		} {
			testkit.MustHold(t, lsm.Try(bad) != nil, name, "nothing is found")
		}
	}
}

// TestMeasuredPagesAreDecodedOnce: a claim that takes many spans of a page reads the sizes of the page once.
func TestMeasuredPagesAreDecodedOnce(t *testing.T) {
	const lines = 400
	s := mustOpen(t, Options{})
	c := &job.Create{Groups: []job.Group{plainGroup("a", "x", lines)}, Frame: job.LineFrame, Longest: 1000}
	for line := range lines {
		c.Payloads = c.Frame.Append(c.Payloads, make([]byte, max(1, c.Longest*(1-line))))
	}
	mustApply(t, s, 1, 0, c)
	higher := 9
	for line := 0; line < lines; line += 2 {
		mustApply(t, s, uint64(2+line), 0, job.Patch{Job: jobID(0, 1, line), Priority: &higher})
	}
	mustCommit(t, s)
	before := s.machine.O.Work().Reads
	claim := plainClaim("r", 150)
	claim.MaxBytes = 5000
	got := mustApply(t, s, lines+2, 0, claim).(*applied.Claimed)
	testkit.Holds(t, got.Jobs() == 150 && len(got.Runs) == 150, got.Jobs(), "jobs in", len(got.Runs), "runs")
	reads := s.machine.O.Work().Reads
	testkit.Holds(t, reads-before <= 20, "the claim read", reads-before, "rows")
}

// TestClaimsReadNoPages: the jobs that a claim takes depend on the journal alone. An unreadable page must neither
// change them nor stop the applier. Here the pages are missing, and claims that measure payloads take the same jobs as
// with pages.
func TestClaimsReadNoPages(t *testing.T) {
	const lines = 300
	for _, frame := range []job.Frame{job.LineFrame, job.LenFrame} {
		for _, strategy := range []job.Strategy{job.Oldest, job.Newest} {
			t.Run(fmt.Sprintf("%v %v", frame, strategy), func(t *testing.T) {
				s := mustOpen(t, Options{})
				g := rand.New(rand.NewPCG(1, uint64(len(strategy))))
				c := &job.Create{Groups: []job.Group{plainGroup("a", "x", lines)}, Frame: frame}
				var sizes []int64
				for range lines {
					size := 1 + g.IntN(2000)
					if g.IntN(50) == 0 {
						size = 200_000
					}
					c.Payloads = frame.Append(c.Payloads, []byte(strings.Repeat("x", size)))
					c.Longest = max(c.Longest, size)
					sizes = append(sizes, int64(size))
				}
				mustStore(t, s, 1, 0, c)
				for _, entry := range dump(s) {
					if entry.key[0] != row.PageTable {
						continue
					}
					testkit.NoError(t, s.db.Pebble().Delete([]byte(entry.key), pebble.NoSync))
					// So that the check at the end finds it:
					defer s.db.Pebble().Set([]byte(entry.key), entry.value, pebble.NoSync)
				}
				for seq, left := uint64(2), sizes; len(left) > 0; seq++ {
					limit := int64(1 + g.IntN(20_000))
					got := mustApply(t, s, seq, 0, job.Claim{Runner: "r", Max: lines, MaxBytes: limit, Strategy: strategy}).(*applied.Claimed)
					want, bytes := 0, int64(0)
					for want < len(left) {
						size := left[want]
						if strategy == job.Newest {
							size = left[len(left)-1-want]
						}
						if bytes+size > limit && want > 0 {
							break
						}
						want++
						bytes += size
					}
					testkit.MustEqual(t, got.Jobs(), want, "a claim", limit, "bytes, jobs")
					if strategy == job.Newest {
						left = left[:len(left)-want]
					} else {
						left = left[want:]
					}
				}
			})
		}
	}
}
