package ingest

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/query"
)

// TestDamagedPage: an unreadable page of payloads does not block the jobs of other pages. Its jobs are set aside and
// listed, and a rebuild repairs them.
func TestDamagedPage(t *testing.T) {
	testkit.OneByOne(t)
	const n = 3000
	ctx, dir := t.Context(), t.TempDir()
	want := damagedBatch(t, dir, n, func(c *job.Create) {
		c.Groups[0].RetentionMs, c.Groups[0].MaxAttempts = 0, 1 // without effect on a job whose payload cannot be read
	})
	e := testkit.Must(Open(Options{Dir: dir}))(t)
	end := serve(t, e)
	// work claims all jobs, completes them, and returns their number.
	work := func() (jobs int) {
		for {
			claimed, docs := mustClaim(t, e, claimOf(700))
			if len(docs) == 0 {
				return jobs
			}
			for i := range docs {
				testkit.MustHold(t, want[docs[i].ID] == string(docs[i].Payload) && docs[i].RunAttempts == 1,
					"job", docs[i].ID, "has attempt", docs[i].RunAttempts, "and payload", docs[i].Payload, "want", want[docs[i].ID])
				delete(want, docs[i].ID)
			}
			testkit.Must2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}))(t)
			jobs += len(docs)
		}
	}
	// Before a claim, documents are shown without the unreadable payloads.
	shown, unread := 0, 0
	for after := (query.JobPlace{}); ; {
		docs, next := testkit.Must2(current(t, e).List(query.Filter{Limit: 1000, After: after, Parts: query.Everything}))(t)
		for i := range docs {
			shown++
			if alone, err := current(t, e).Job(docs[i].ID); err != nil || alone.Error != docs[i].Error {
				t.Fatalf("job %s by itself has the error %q, in a list %q: %v", docs[i].ID, alone.Error, docs[i].Error, err)
			}
			if docs[i].Error == job.DamagedText {
				unread++
			} else if string(docs[i].Payload) != want[docs[i].ID] {
				t.Fatalf("job %s is listed with payload %q", docs[i].ID, docs[i].Payload)
			}
		}
		if after = next; next.IsZero() {
			break
		}
	}
	testkit.Holds(t, shown == n && unread != 0 && unread != n, shown, "of", n, "jobs are listed", unread, "of them damaged")
	healthy := work()
	testkit.MustHold(t, healthy != 0 && healthy != n &&
		e.Stats().Damaged == uint64(n-healthy), healthy, "of", n, "jobs were handed out", e.Stats().Damaged, "set aside")
	listed := func() (ids []job.ID) {
		for after := (query.JobPlace{}); ; {
			docs, next := testkit.Must2(current(t, e).List(query.Filter{Status: job.Deferred, Limit: 1000, After: after, Parts: query.Everything}))(t)
			for i := range docs {
				if d := &docs[i]; d.Code != job.Damaged || d.Error != job.DamagedText || d.Payload != nil || d.RunAttempts != 0 || d.RunAt != job.MaxTimeMs {
					t.Fatalf("set aside: %+v", d)
				}
				ids = append(ids, docs[i].ID)
			}
			if after = next; next.IsZero() {
				return ids
			}
		}
	}
	aside := listed()
	testkit.Equal(t, len(aside), n-healthy, "jobs are listed as damaged")
	testkit.Must2(e.Move(ctx, job.Move{Op: job.Run, Job: aside[0]}))(t)
	testkit.Equal(t, work(), 0, "damaged jobs were handed out before the store was mended")
	end()

	testkit.Must(Rebuild(ctx, dir, "", func(uint64, uint64) {}))(t)
	e, _ = start(t, dir)
	for _, id := range aside {
		testkit.Must2(e.Move(ctx, job.Move{Op: job.Run, Job: id}))(t)
	}
	jobs := work()
	testkit.Holds(t, jobs == len(aside) && len(want) == 0, jobs, "of", len(aside), "mended jobs were handed out")
}

// damagedBatch makes a batch of n jobs with one unreadable page of payloads. It returns the payloads.
func damagedBatch(t *testing.T, dir string, n int, change func(*job.Create)) (want map[job.ID]string) {
	t.Helper()
	e, stop := start(t, dir)
	random := rand.New(rand.NewPCG(1, 2))
	c := lines(n)
	c.Payloads, c.Longest = nil, 0
	change(c)
	var payloads []string
	for range n {
		payload := fmt.Sprintf("%016x%016x%016x", random.Uint64(), random.Uint64(), random.Uint64())
		payloads = append(payloads, payload)
		c.Payloads = c.Frame.Append(c.Payloads, []byte(payload))
		c.Longest = max(c.Longest, len(payload))
	}
	_, receipt := testkit.Must2(e.Create(t.Context(), c))(t)
	want = map[job.ID]string{}
	for line, payload := range payloads {
		want[job.NewID(receipt.At, receipt.Seq, line)] = payload
	}
	stop() // flushes the store
	spoil(t, StoreDir(dir))
	return want
}

// TestJobsSetAsideKeepTheirRules: a job whose payload cannot be read follows the rules of any other deferred job. Its
// claim no longer holds it; it can be patched, run, cancelled, redriven and deleted; it holds its unique key. It is not
// handed out before the store is repaired. Other jobs are not affected.
func TestJobsSetAsideKeepTheirRules(t *testing.T) {
	testkit.OneByOne(t)
	const n, keys = 3000, 1000 // some of them are in the damaged page
	ctx, dir := t.Context(), t.TempDir()
	key := func(id job.ID) string { return fmt.Sprint("key ", id.Line()) }
	want := damagedBatch(t, dir, n, func(c *job.Create) {
		c.Groups[0].MaxAttempts = 1
		for line := n/2 - keys/2; line < n/2+keys/2; line++ {
			c.Unique = append(c.Unique, job.UniqueKey{Line: line, Key: fmt.Sprint("key ", line)})
		}
	})
	e, err := Open(Options{Dir: dir})
	testkit.NoError(t, err)
	end := serve(t, e)
	number := inSession(t, e)
	must := func(err error) { t.Helper(); testkit.NoError(t, err) }

	// All jobs with readable payloads are handed out, and stay active.
	var claims []job.ID
	active := map[job.ID]bool{}
	claim := func(max int) (jobs int) {
		t.Helper()
		c := claimOf(max)
		c.LeaseMs, c.Once = 3_600_000, number(len(claims), 1)
		claimed, docs, _, err := e.Claim(ctx, c, 0)
		must(err)
		claims = append(claims, claimed.Claim)
		for i := range docs {
			testkit.MustHold(t, want[docs[i].ID] == string(docs[i].Payload) && docs[i].RunAttempts == 1 && !active[docs[i].ID],
				"job", docs[i].ID, "has attempt", docs[i].RunAttempts, "and payload", docs[i].Payload, "want", want[docs[i].ID])
			active[docs[i].ID] = true
		}
		again, repeated, _, err := e.Claim(ctx, c, 0)
		testkit.MustHold(t, err == nil && again.Claim == claimed.Claim && len(repeated) == len(docs),
			"the repeat of a claim of", len(docs), "jobs has", len(repeated), err)
		return len(docs)
	}
	for e.Stats().Jobs["pending"] > 0 {
		claim(700)
	}
	var aside []job.ID // with a unique key
	for id := range want {
		if line := id.Line(); !active[id] && line >= n/2-keys/2 && line < n/2+keys/2 {
			aside = append(aside, id)
		}
	}
	testkit.MustHold(t, len(active) != 0 && len(aside) >= 10 && e.Stats().Damaged == uint64(n-len(active)),
		len(active), "of", n, "jobs were handed out", e.Stats().Damaged, "set aside", len(aside), "of them with a key")
	is := func(id job.ID, status job.Status) *job.Job {
		t.Helper()
		doc, err := current(t, e).Job(id)
		must(err)
		if doc.Status != status || doc.RunAttempts != 0 || status == job.Deferred && (doc.Code != job.Damaged || doc.Error != job.DamagedText || doc.Payload != nil || doc.RunAt != job.MaxTimeMs) {
			t.Fatalf("want %v: %+v", status, doc)
		}
		return &doc
	}
	move := func(op job.Op, id job.ID, want job.Refusal) {
		t.Helper()
		moved, _ := testkit.Must2(e.Move(ctx, job.Move{Op: op, Job: id}))(t)
		testkit.MustEqual(t, moved.Refusal, want, op, moved)
	}
	patch := func(p job.Patch) {
		t.Helper()
		moved, _ := testkit.Must2(e.Patch(ctx, p))(t)
		testkit.MustEqual(t, moved.Refusal, job.Granted, "patch:", moved)
	}
	holder := func(id job.ID) job.ID { // returns the job that holds its unique key
		t.Helper()
		c := lines(1)
		c.Unique = []job.UniqueKey{{Key: key(id)}}
		c.Groups[0].RunAt = job.MaxTimeMs
		made, _, err := e.Create(ctx, c)
		must(err)
		if len(made.Existing) == 0 {
			return made.Batch
		}
		return made.Existing[0].Job
	}
	for _, id := range aside {
		is(id, job.Deferred)
	}

	patched, early, cancelled, deleted := aside[0], aside[1], aside[2], aside[3]
	for _, c := range claims { // no claim holds it
		ended, _, err := e.Complete(ctx, job.Complete{Claim: c, Outcomes: []job.Outcome{{ID: patched, Code: job.OK, ExitCode: 200, DelayMs: -1}}})
		testkit.NoError(t, err)
		testkit.MustHold(t, ended.Results[0].Refusal != job.Granted, "complete", ended)
	}
	move(job.Redrive, patched, job.HasNotEnded)
	priority, now := 9, e.Now()
	patch(job.Patch{Job: patched, Priority: &priority})
	doc := is(patched, job.Deferred)
	testkit.Holds(t, doc.Priority == priority && doc.UniqueKey == key(patched) && holder(patched) == patched, "patched", doc)
	patch(job.Patch{Job: early, RunAt: &now})
	is(early, job.Pending)
	move(job.Cancel, cancelled, job.Granted)
	gone := testkit.Must(current(t, e).Job(cancelled))(t)
	testkit.Holds(t, gone.Status == job.Cancelled && gone.Code == job.NoCode && gone.Error == job.DamagedText, "cancelled", gone)
	b := testkit.Must(current(t, e).Batch(cancelled.WithLine(0)))(t)
	testkit.Equal(t, b.Counts[job.Cancelled], 1, "cancelled:", b)
	move(job.Redrive, cancelled, job.Granted)
	move(job.Delete, deleted, job.Granted)
	move(job.Run, deleted, job.NotFound)
	testkit.Holds(t, holder(deleted) != deleted, "a deleted job holds its unique key")
	testkit.Equal(t, claim(10), 0, "damaged jobs were handed out") // jobs that were made pending again are set aside again
	is(early, job.Deferred)
	is(cancelled, job.Deferred)
	testkit.Equal(t, e.Stats().Jobs["active"], int64(len(active)), "jobs are active, and", len(active), "were handed out")
	end()

	_, err = Rebuild(ctx, dir, "", func(uint64, uint64) {})
	must(err)
	e, _ = start(t, dir)
	testkit.Equal(t, e.Stats().Jobs["active"], int64(len(active)), "after the rebuild jobs are active, and", len(active), "were handed out")
	for _, id := range []job.ID{patched, early, cancelled} {
		move(job.Run, id, job.Granted)
	}
	jobs := claim(10)
	testkit.Holds(t, jobs == 3 && active[patched] && active[early] && active[cancelled], jobs, "mended jobs were handed out")
}

// spoil flips a bit in the middle of the largest table of a store, which is in a page of payloads.
func spoil(t *testing.T, dir string) {
	t.Helper()
	tables := testkit.Must(filepath.Glob(filepath.Join(dir, "*.sst")))(t)
	var largest []byte
	name := ""
	for _, table := range tables {
		data := testkit.Must(os.ReadFile(table))(t)
		if len(data) > len(largest) {
			largest, name = data, table
		}
	}
	largest[len(largest)/2] ^= 1
	testkit.NoError(t, os.WriteFile(name, largest, 0o600))
}

// TestDamagedKeysAndHistories: an unreadable block with unique keys or histories does not block other jobs either. No
// list and no document fails because of it.
func TestDamagedKeysAndHistories(t *testing.T) {
	testkit.OneByOne(t)
	const n = 400
	text := func(random *rand.Rand) string {
		b := make([]byte, 150)
		for i := range b {
			b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[random.IntN(64)]
		}
		return string(b)
	}
	for _, what := range []string{"unique keys", "histories"} {
		t.Run(what, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			e, stop := start(t, dir)
			random := rand.New(rand.NewPCG(3, 4))
			c := lines(n)
			c.Groups[0].RetentionMs = 3_600_000
			marker := ""
			if what == "unique keys" {
				for line := range n {
					c.Unique = append(c.Unique, job.UniqueKey{Line: line, Key: text(random)})
				}
				marker = c.Unique[n/2].Key
			}
			_, receipt := testkit.Must2(e.Create(ctx, c))(t)
			if what == "histories" {
				claimed, docs := mustClaim(t, e, claimOf(n))
				testkit.MustEqual(t, len(docs), n)
				end := job.Complete{Claim: claimed.Claim}
				for i := range docs {
					end.Outcomes = append(end.Outcomes, job.Outcome{ID: docs[i].ID, Code: job.Retry, ExitCode: 100, Error: text(random)})
				}
				marker = end.Outcomes[n/2].Error
				testkit.Must2(e.Complete(ctx, end))(t)
			}
			stop() // flushes the store
			spoilAt(t, StoreDir(dir), marker)

			e = testkit.Must(Open(Options{Dir: dir}))(t)
			end := serve(t, e)
			defer end()
			// look reads all jobs in lists and one by one. It returns the number of damaged jobs, and how many of them
			// have the given code.
			look := func() (damaged, coded int) {
				listed := 0
				for after := (query.JobPlace{}); ; {
					docs, next := testkit.Must2(current(t, e).List(query.Filter{Limit: 1000, After: after, Parts: query.Everything}))(t)
					for i := range docs {
						if docs[i].Error == job.DamagedText {
							damaged++
						}
						if docs[i].Code == job.Damaged {
							coded++
						}
					}
					listed += len(docs)
					if after = next; next.IsZero() {
						break
					}
				}
				for line := range n {
					testkit.Must(current(t, e).Job(job.NewID(receipt.At, receipt.Seq, line)))(t)
				}
				testkit.Equal(t, listed, n, "jobs are listed")
				return damaged, coded
			}
			damaged, coded := look()
			testkit.Holds(t, damaged != 0 && damaged <= n/4 && coded == 0, damaged, "jobs show damage before a claim", coded, "have the code")
			healthy := 0
			for {
				claimed, docs := mustClaim(t, e, claimOf(70))
				if len(docs) == 0 {
					break
				}
				testkit.Must2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}))(t)
				healthy += len(docs)
			}
			aside := n - healthy
			testkit.Holds(t, aside != 0 && aside <= n/4 &&
				e.Stats().Damaged == uint64(aside), healthy, "of", n, "jobs were handed out", e.Stats().Damaged, "set aside")
			damaged, coded = look()
			testkit.Holds(t, damaged >= aside && coded == aside, damaged, "jobs show damage", coded, "have the code", aside, "were set aside")
		})
	}
}

// spoilAt flips a bit at the first place of a store's tables that contains a text.
func spoilAt(t *testing.T, dir, text string) {
	t.Helper()
	tables := testkit.Must(filepath.Glob(filepath.Join(dir, "*.sst")))(t)
	for _, table := range tables {
		data := testkit.Must(os.ReadFile(table))(t)
		if at := bytes.Index(data, []byte(text)); at >= 0 {
			data[at] ^= 1
			testkit.NoError(t, os.WriteFile(table, data, 0o600))
			return
		}
	}
	t.Fatal("no table has the text")
}

// TestOlderStore: a store whose manifest has lost its end has an older state. If the journal has all later commands, a
// start applies them. Otherwise the start is refused and deletes no table, so that an operator can restore the manifest.
func TestOlderStore(t *testing.T) {
	for _, cut := range []bool{false, true} {
		name := "a journal from the beginning"
		if cut {
			name = "a journal that was cut"
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			small := Options{Dir: dir, JournalRetain: 1 << 30, Journal: journal.Options{SegmentBytes: 4 << 10, VolumeBytes: 16 << 10}}
			e, stop := startWith(t, small)
			for range 20 {
				_, last := testkit.Must2(e.Create(t.Context(), lines(100)))(t)
				testkit.NoError(t, e.CatchUp(t.Context(), last.Seq))
			}
			testkit.NoError(t, e.store.FlushWait())
			if cut {
				e.cut(0)
			}
			killed := t.TempDir()
			testkit.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
			stop()
			dir, small.Dir = killed, killed
			manifests := testkit.Must(filepath.Glob(filepath.Join(StoreDir(dir), "MANIFEST-*")))(t)
			testkit.MustEqual(t, len(manifests), 1)
			whole := testkit.Must(os.ReadFile(manifests[0]))(t)
			// The first record of the manifest, which makes an empty store, ends at offset 39. The test flips a bit of
			// the second record.
			damaged := bytes.Clone(whole)
			damaged[50] ^= 1
			testkit.NoError(t, os.WriteFile(manifests[0], damaged, 0o600))
			p := testkit.Must(store.Peek(StoreDir(dir), store.Options{}))(t)
			testkit.MustHold(t, p.Applied == 0 && p.Torn != "", "the store is not an older one", p)
			var log bytes.Buffer
			again := small
			again.Logger = slog.New(slog.NewTextHandler(&log, nil))
			if cut {
				for range 2 {
					testkit.Fails(Open(again))(t, journal.ErrCursor, manifests[0]+", cannot be read from offset 39")
				}
				testkit.NoError(t, os.WriteFile(manifests[0], whole, 0o600))
			}
			e, stop = startWith(t, again)
			totals := e.store.Totals()
			testkit.Equal(t, totals.Counts.Total(), 2000, "jobs")
			stop()
			testkit.Holds(t, strings.Contains(log.String(), "manifest is missing") != cut, "it said", &log)
		})
	}
}
