package store

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// metaCreate returns a create of n jobs, each in a separate group, because its meta has a unique value beside some
// entries of 64 bytes.
func metaCreate(typ string, first, n, entries int) *job.Create {
	c := plainCreate("a", typ, n, 5)
	c.Groups = nil
	for i := range n {
		g := plainGroup("a", typ, 1)
		g.Traceparent = fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", first+i+1)
		pairs := []string{fmt.Sprintf("k=%d", first+i)}
		for k := range entries {
			pairs = append(pairs, fmt.Sprintf("k%02d=%064d", k, first+i))
		}
		g.Meta = job.Meta(strings.Join(pairs, ","))
		c.Groups = append(c.Groups, g)
	}
	return c
}

// liveBytes returns the size of the heap after a collection.
func liveBytes() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// allocatedBy returns how many bytes do allocated.
func allocatedBy(do func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// TestSizesOfCachedRows: no cache takes more memory than the sizes that bound it say, with small rows or large.
func TestSizesOfCachedRows(t *testing.T) {
	const n = 1000
	text := func(size int) string { return strings.Repeat("x", size) }
	for _, large := range []int{0, 1} {
		alike := plainGroup("a", "x", 1)
		alike.Meta = job.Meta("k=" + text(large*4000))
		entry := (&row.Batch{Lines: 1, Groups: &row.GroupPage{Groups: []row.Group{{Attributes: alike.Attributes}}}}).Encode()
		page := func() []byte {
			groups := make([]row.Group, 30)
			for i := range groups {
				groups[i] = row.Group{First: uint32(i), Last: uint32(i), Attributes: plainGroup("a", "x", 1).Attributes}
				groups[i].Meta = job.Meta("k=" + text(large*100))
			}
			_, row := row.CutGroups(groups, 1<<20)
			return row
		}()
		claimed := (&row.Claim{Runner: "r" + text(large*100), Runs: make([]row.Run, 1+large*999)}).Encode()
		held := (&row.Runner{Claims: 1, Open: make([]uint64, 1+large*7)}).Encode()
		said := (&row.Submission{Submission: job.Submission{Name: text(large * 200), Meta: job.BatchMeta("k=" + text(large*4000)), Baggage: text(large * 8000)}}).Encode()
		state := (&row.SubmissionState{Status: job.BatchInProgress}).Encode()
		opened := (&row.Session{Runner: text(1 + large*100)}).Encode()
		last := (&row.Slot{Number: 1, Done: &row.Done{Seq: 1, Lines: 1, Group: row.Group{Attributes: alike.Attributes}, Existing: make([]row.MadeBy, large*1000),
			Ended: []row.EndedPart{{Results: make([]row.ResultRun, 1+large*999)}}}}).Encode()
		c := memory.NewCaches()
		pages := memory.NewPageCache()
		for kind, fill := range map[string]func(i int) int{
			"batches": func(i int) int {
				b := row.DecodeBatch(uint64(i), entry)
				c.Batches.Set(b.Seq, b)
				return b.Size()
			},
			"groups": func(i int) int {
				p := row.DecodeGroupPage(row.GroupPageName{uint64(i), 29}, 0, page)
				c.Groups.Set(p.GroupPageName, p)
				return p.Size()
			},
			"claims": func(i int) int {
				x := row.DecodeClaim(uint64(i), claimed, nil)
				c.Claims.Set(x.Seq, x)
				return x.Size()
			},
			"runners": func(i int) int {
				r := row.DecodeRunner(fmt.Sprint("r", i), held)
				c.Runners.Set(r.Name, r)
				return r.Size()
			},
			"submissions": func(i int) int {
				s := row.DecodeSubmission(uint64(i), said, state)
				c.Submissions.Set(s.Seq, s)
				return s.Size()
			},
			"sessions": func(i int) int {
				n := row.DecodeSession(uint64(i), opened)
				c.Sessions.Set(n.Seq, n)
				return n.Size()
			},
			"slots": func(i int) int {
				l := &row.Slot{SlotName: row.SlotName{uint64(i), 0}}
				l.Number, l.Done = row.DecodeSlot(last)
				c.Slots.Set(l.SlotName, l)
				return l.Size()
			},
			"cells": func(i int) int {
				x := row.DecodeCell(fmt.Sprintf("%030d", i), (&row.Cell{}).Encode())
				c.Cells.Set(x.Key, x)
				return x.Size()
			},
			"hints": func(i int) int {
				c.Hints.Set(fmt.Sprintf("%0*d", 10+large*(job.MaxKeyBytes-10), i), &memory.HintRow{make([]byte, 12)})
				return memory.HintBytes
			},
			"spans": func(i int) int {
				c.Spans.Set(memory.CachedSpan{uint64(i), row.Span{0, 1, job.State{}, 0}})
				return memory.CachedSpanBytes
			},
			"pages": func(i int) int {
				p := memory.CachedPage{Seq: uint64(i), Framed: make([]byte, 10+large*2000), Marks: make([]uint32, large*30)}
				pages.Recent.Set(p)
				return p.Size()
			},
		} {
			before, sizes := liveBytes(), 0
			for i := range n {
				sizes += fill(i)
			}
			took := liveBytes() - before
			testkit.Holds(t, took <= sizes*5/4, kind, "of large", large, took/n, "bytes each, and counted as", sizes/n)
		}
		runtime.KeepAlive(&c)
		runtime.KeepAlive(&pages)
	}
}

// TestCachesAreBoundedByTheirBytes: jobs with a meta and a traceparent each take no more memory than the caches may
// hold, while they wait, are claimed, completed and deleted. In an earlier version, a thousand groups of a batch took a
// megabyte each.
func TestCachesAreBoundedByTheirBytes(t *testing.T) {
	const posts, jobs, limit = 10, 1000, 1 << 20
	b := memory.StandardBounds
	b.BatchBytes, b.SpanBytes, b.RowBytes = limit, limit, limit
	s := testkit.Must(Open(t.TempDir(), Options{Journal: testJournal, FS: vfs.Default, bounds: &b, MemtableBytes: 1 << 20, CacheBytes: 1 << 20}))(t)
	defer func() { testkit.Check(t, s.Close()) }()
	before, seq := liveBytes(), uint64(0)
	apply := func(cmd job.Command) applied.Result {
		seq++
		r := mustStore(t, s, seq, int64(seq), cmd)
		s.TakeReadied()
		return r
	}
	look := func(what string) {
		t.Helper()
		cached := 0
		for p := range s.machine.Groups.All() {
			cached += p.Size()
		}
		for b := range s.machine.Batches.All() {
			cached += b.Size()
		}
		testkit.Holds(t, cached <= 2*limit+limit/2, what, "batches and groups of", cached, "bytes are cached")
		grown := liveBytes() - before
		testkit.Holds(t, grown <= 12<<20, what, grown>>20, "MiB on the heap")
	}
	for i := range posts {
		apply(metaCreate("x", i*jobs, jobs, 12))
	}
	look("waiting")
	for i := range posts * jobs / 100 / 2 {
		claim := plainClaim("r1", 100)
		if i%2 == 1 {
			claim.Strategy = job.Random
		}
		c := apply(claim).(*applied.Claimed)
		apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
	}
	look("claimed and completed")
	apply(job.Move{Client: "a", Type: "x", Op: job.Delete})
	for s.Totals().Sweeps > 0 {
		apply(job.Tick{})
	}
	look("deleted")
}

// TestRefusedCommandsFillNoMemory: refused commands write no rows, but read the rows that they name. A commit becomes
// due before these rows exceed the bounds of the caches, whoever applies the commands.
func TestRefusedCommandsFillNoMemory(t *testing.T) {
	const batches = 180
	fs := vfs.NewMem()
	s := mustOpenIn(t, fs)
	for n := range batches {
		mustStore(t, s, uint64(1+n), 0, metaCreate("x", n*1000, 1000, 12))
	}
	testkit.NoError(t, errors.Join(s.FlushWait(), s.Close()))
	s = mustOpen(t, Options{FS: fs, bounds: &memory.StandardBounds})
	mustStore(t, s, batches+1, 0, job.Mark{})
	half, commits := 0, 0
	for n := range batches {
		if n == batches/2 { // by then Pebble's cache is full, too
			half = liveBytes()
		}
		ids := make([]job.ID, 1000)
		for i := range ids {
			ids[i] = jobID(0, uint64(1+n), i)
		}
		mustApply(t, s, uint64(batches+2+n), 0, job.Tickle{IDs: ids, Progress: -1})
		testkit.MustHold(t, s.machine.O.Bytes() == 0, "a refused command writes rows")
		if s.CommitDue() {
			commits++
			mustCommit(t, s)
		}
		testkit.MustHold(t, !s.CommitDue(), "a commit is due after a commit")
	}
	if grown := liveBytes() - half; commits < 2 || grown > 140<<20 { // 2.4 MiB per command without trimming
		t.Errorf("%d commits, and %d commands keep %d KiB of memory", commits, batches/2, grown>>10)
	}
	runtime.KeepAlive(s)
}

// TestOneGroupOfAThousand: a claim of one job of a batch reads and decodes one page of its groups, not all.
func TestOneGroupOfAThousand(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpenIn(t, fs)
	mustStore(t, s, 1, 0, metaCreate("x", 0, 1000, 12))
	testkit.NoError(t, errors.Join(s.FlushWait(), s.Close()))
	s = mustOpen(t, Options{FS: fs, bounds: &memory.StandardBounds})
	mustApply(t, s, 2, 0, job.Mark{})
	for i, strategy := range []job.Strategy{job.Oldest, job.Newest, job.Random} {
		claim := plainClaim("r1", 1)
		claim.Strategy = strategy
		var c *applied.Claimed
		bytes := allocatedBy(func() { c = mustApply(t, s, uint64(3+i), 0, claim).(*applied.Claimed) })
		testkit.Holds(t, bytes <= 128<<10, "a claim by", strategy, "allocated", bytes, "bytes")
		handed := testkit.Must(s.HandedOut(c))(t)
		testkit.MustEqual(t, len(handed), 1)
		doc := handed[0].First
		value, _ := doc.Meta.Get("k")
		testkit.Holds(t, value == fmt.Sprint(doc.ID.Line()), "line", doc.ID.Line(), "has meta", doc.Meta)
	}
	cached := 0
	for p := range s.machine.Groups.All() {
		cached += len(p.Groups)
	}
	testkit.Holds(t, cached <= 20, cached, "groups were decoded for three jobs")
	mustCommit(t, s)
	sound(t, s)
}

// TestListReadsWhatAPageShows: a page of a list decodes a bounded number of groups, whether they match or not, and all
// pages together find all jobs.
func TestListReadsWhatAPageShows(t *testing.T) {
	s := mustOpen(t, Options{bounds: &memory.StandardBounds})
	const posts, jobs = 20, 1000
	for i := range posts {
		mustStore(t, s, uint64(1+i), int64(i), metaCreate("x", i*jobs, jobs, 12))
	}
	allocated := func(what string, most int, look func()) {
		t.Helper()
		bytes := allocatedBy(look)
		testkit.Holds(t, bytes <= most, what, "allocated", bytes>>10, "KiB")
	}
	pages, found := 0, 0
	for after := (query.JobPlace{}); ; {
		var docs []job.Job
		var next query.JobPlace
		var err error
		allocated("a page of jobs", 6*query.MaxListReadBytes, func() {
			docs, next, err = s.List(query.Filter{Meta: map[string]string{"k": fmt.Sprint(posts*jobs - 1)}, Limit: 1000, After: after})
		})
		testkit.NoError(t, err)
		found += len(docs)
		pages++
		if after = next; next.IsZero() {
			break
		}
	}
	testkit.Holds(t, found == 1 && pages <= 20, found, "jobs on", pages, "pages")
	allocated("ten jobs", 200<<10, func() {
		docs, next, err := s.List(query.Filter{Limit: 10})
		testkit.Holds(t, len(docs) == 10 && !next.IsZero() && err == nil, len(docs), "jobs", next, err)
	})
	for _, f := range []query.BatchFilter{{Limit: 1000}, {Limit: 1000, Client: "a"}, {Limit: 1000, Client: "none"}} {
		allocated("a list of batches", 400<<10, func() {
			docs, _ := testkit.Must2(s.Batches(f))(t)
			testkit.Holds(t, len(docs) == posts || f.Client == "none", len(docs), "batches")
		})
	}
}

// TestRowsInUseStayCached: a row that is looked up all the time stays in the cache, however many other rows pass
// through the cache.
func TestRowsInUseStayCached(t *testing.T) {
	b := memory.SmallBounds
	b.BatchBytes, b.SpanBytes, b.RowBytes = 20*600, 20*memory.CachedSpanBytes, 20*400
	s := mustOpen(t, Options{bounds: &b})
	mustApply(t, s, 1, 0, plainCreate("a", "hot", 1, 5))
	claim := plainClaim("hot", 1)
	held := mustApply(t, s, 2, 0, claim).(*applied.Claimed)
	hot, first := s.machine.Batches.Get(1), s.machine.Claims.Get(2)
	seq := uint64(3)
	for range 500 {
		mustApply(t, s, seq, 0, plainCreate("a", "cold", 1, 5))
		seq = lifecycle(t, s, seq+1, 0, "cold", 1)
		mustApply(t, s, seq, 0, job.Tickle{IDs: []job.ID{jobID(0, 1, 0)}, Claim: held.Claim, Progress: -1})
		seq++
		mustCommit(t, s)
		testkit.MustEqual(t, s.machine.Batches.Get(1), hot, "at", seq, "a row in use was dropped")
		testkit.MustEqual(t, s.machine.Claims.Get(2), first, "at", seq, "a row in use was dropped")
		_, ok := s.machine.Spans.Get(memory.CachedSpan{Seq: 1, Span: row.Span{Last: 0}})
		testkit.MustHold(t, ok, "at", seq, "a span in use was dropped")
		for what, n := range map[string]int{
			"batches": s.machine.Batches.Len(), "claims": s.machine.Claims.Len(), "spans": s.machine.Spans.Len(),
		} {
			testkit.MustHold(t, n <= 25, n, what, "are cached") // a commit adds a few more
		}
	}
}

// TestPagesInUseStayCached: the cache of pages is bounded by their bytes.
func TestPagesInUseStayCached(t *testing.T) {
	s := mustOpen(t, Options{})
	const pageBytes, pages = 1 << 20, 200
	for i := range pages {
		s.machine.Live.Pages.Add(memory.CachedPage{Seq: uint64(i), Last: 1, Framed: make([]byte, pageBytes)})
		_, ok := s.machine.Live.Pages.Find(nil, 0, 0)
		testkit.MustHold(t, ok, "a page in use was dropped")
	}
	n := s.machine.Live.Pages.Recent.Len()
	testkit.Holds(t, n <= memory.PageCacheBytes/pageBytes+2, n, "pages are cached")
}

// TestNewPagesAreCached: the payload of a job that was created a moment ago is not read from the database.
func TestNewPagesAreCached(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 3, 5))
	mustStore(t, s, 2, 0, plainCreate("a", "y", 3, memory.NewPageBytes))
	none := func() lsm.View { t.Fatal("a page of a small batch was read"); return lsm.View{} }
	page, ok := s.machine.Live.Pages.Find(none, 1, 2)
	testkit.Holds(t, ok && page.First == 0 && page.Last == 2 && len(page.Framed) == 3*6, "page", page, ok)
	testkit.Equal(t, s.machine.Live.Pages.Recent.Len(), 1, "the pages of a large batch were cached before a claim needed them")
}

// TestClaimsReadAhead: claims of single jobs from batches of one job, after a restart, read the rows and pages of many
// batches at once.
func TestClaimsReadAhead(t *testing.T) {
	const jobs = 4 * machine.AheadSpans
	fs := vfs.NewMem()
	s := mustOpenIn(t, fs)
	for seq := range uint64(jobs) {
		mustApply(t, s, seq+1, 0, plainCreate("a", "x", 1, 100))
	}
	mustCommit(t, s)
	testkit.NoError(t, errors.Join(s.FlushWait(), s.Close()))
	s = mustOpen(t, Options{FS: fs, bounds: &memory.StandardBounds})
	before := s.machine.O.Work().Iterators
	views := 0
	for seq := range uint64(jobs) {
		c := mustApply(t, s, jobs+1+seq, 0, plainClaim("r", 1)).(*applied.Claimed)
		for _, h := range c.Handouts {
			s.machine.Live.Pages.EachPart(func() lsm.View {
				views++
				v := s.db.View()
				t.Cleanup(v.Discard)
				return v
			}, h.B, h.Sp.First, h.Sp.Last, func(_, _ uint32, part []byte) { testkit.Equal(t, len(part), 101); testkit.Equal(t, h.B.Seq, seq+1) })
		}
	}
	mustCommit(t, s)
	after := s.machine.O.Work().Iterators
	testkit.Holds(t, after-before <= jobs/4 && views <= jobs/4, jobs, "claims opened", after-before, "iterators and", views, "views")
}
