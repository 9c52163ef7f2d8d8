package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/daybookq/daybook/job"
)

// TestClaimsReadNoPages: what a claim takes follows from the journal alone. A page that a disk cannot read must not alter it, nor stop the
// applier: here the pages are missing, and claims that have to measure payloads take what they would take otherwise.
func TestClaimsReadNoPages(t *testing.T) {
	const lines = 300
	for _, frame := range []job.Frame{job.LineFrame, job.LenFrame} {
		for _, strategy := range []job.Strategy{job.Oldest, job.Newest} {
			t.Run(fmt.Sprintf("%v %v", frame, strategy), func(t *testing.T) {
				s := mustOpen(t, Options{})
				g := rand.New(rand.NewPCG(1, uint64(strategy)))
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
				mustApply(t, s, 1, 0, c)
				mustCommit(t, s)
				for _, row := range dump(s) {
					if row.key[0] != pageTable {
						continue
					}
					if err := s.db.Delete([]byte(row.key), pebble.NoSync); err != nil {
						t.Fatal(err)
					}
					defer s.db.Set([]byte(row.key), row.value, pebble.NoSync) // for the check at the end
				}
				for seq, left := uint64(2), sizes; len(left) > 0; seq++ {
					limit := int64(1 + g.IntN(20_000))
					got := mustApply(t, s, seq, 0, job.Claim{Runner: "r", Max: lines, MaxBytes: limit, Strategy: strategy}).(*Claimed)
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
					if got.Jobs() != want {
						t.Fatalf("a claim of %d bytes took %d jobs, want %d", limit, got.Jobs(), want)
					}
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
