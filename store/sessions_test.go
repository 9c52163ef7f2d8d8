package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// inSession returns a command's Once in slot 0 of a session.
func inSession(id job.ID, number uint64) job.Once {
	return job.Once{Session: id, Number: number, Digest: job.Digest{1}}
}

func openSession(t testing.TB, s *Store, seq uint64, at int64) job.ID {
	t.Helper()
	opened := mustApply(t, s, seq, at, job.OpenSession{Runner: fmt.Sprint("r", seq)}).(*applied.SessionOpened)
	testkit.MustEqual(t, opened.Refusal, job.Granted)
	testkit.MustEqual(t, opened.Session.ID, jobID(at, seq, 0))
	return opened.Session.ID
}

func rowsOf(t testing.TB, s *Store, table byte) (n int) {
	t.Helper()
	v := s.db.View()
	defer v.Close()
	v.Scan(string(table), string(table+1), func(string, []byte) bool { n++; return true })
	return n
}

// TestSessionLeavesNoRowPerRequest: ten thousand claims and completions in one session leave one row for the session,
// one for each slot that they used, and no key.
func TestSessionLeavesNoRowPerRequest(t *testing.T) {
	s := mustOpen(t, Options{})
	seq := uint64(1)
	next := func() uint64 { seq++; return seq }
	id := openSession(t, s, seq, 0)
	claims := 10_000
	if testing.Short() {
		claims = 1000
	}
	for n := uint64(1); n <= uint64(claims); n++ {
		slot := int(n % 2)
		create := plainCreate("a", "x", 1, 3)
		create.Groups[0].RetentionMs = 0
		create.Once = job.Once{Session: id, Slot: 2, Number: n}
		mustApply(t, s, next(), int64(n), create)
		claim := plainClaim("r", 1)
		claim.Once = job.Once{Session: id, Slot: slot, Number: n}
		got := mustApply(t, s, next(), int64(n), claim).(*applied.Claimed)
		testkit.MustEqual(t, got.Jobs(), 1, "claim", n, got)
		mustApply(t, s, next(), int64(n), job.Complete{
			Claim: got.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}, Once: job.Once{Session: id, Slot: 3, Number: n},
		})
		if n%100 == 0 {
			mustCommit(t, s)
		}
	}
	mustCommit(t, s)
	for table, want := range map[byte]int{row.SessionTable: 1, row.SlotTable: 4, row.OnceTable: 0, row.ClaimTable: 0, row.BatchTable: 0} {
		testkit.Equal(t, rowsOf(t, s, table), want, "table", table)
	}
	doc, err := s.SessionDocument(id)
	want := []document.SlotState{{0, uint64(claims)}, {1, uint64(claims) - 1}, {2, uint64(claims)}, {3, uint64(claims)}}
	testkit.NoError(t, err)
	testkit.Holds(t, slices.Equal(doc.Slots, want) && doc.Runner == "r1" && doc.UsedAt == startAt+int64(claims), doc)
}

// TestSlotAnswersItsLastRequest: a slot repeats its last answer, refuses earlier requests, and recognizes a different
// request by its digest.
func TestSlotAnswersItsLastRequest(t *testing.T) {
	s := mustOpen(t, Options{})
	id := openSession(t, s, 1, 0)
	create := plainCreate("a", "x", 3, 3)
	create.Once = inSession(id, 7)
	made := mustApply(t, s, 2, 1, create).(*applied.Made)
	for seq := uint64(3); seq < 5; seq++ { // before and after the commit
		again := mustApply(t, s, seq, 1, create).(*applied.Made)
		testkit.Holds(t, again.Replayed && again.Batch == made.Batch && again.Lines == 3, "again", again, "first", made)
		mustCommit(t, s)
	}
	other := create.Once
	other.Digest = job.Digest{2}
	seq := uint64(10)
	next := func() uint64 { seq++; return seq }
	for name, test := range map[string]struct {
		once job.Once
		want job.Refusal
	}{
		"another request":  {other, job.NumberReused},
		"a request before": {inSession(id, 6), job.NumberPassed},
		"no session":       {inSession(jobID(1, 2, 0), 8), job.SessionNotFound},
		"another time":     {inSession(job.NewID(id.At()+1, 1, 0), 8), job.SessionNotFound},
		"another kind":     {create.Once, job.KeyReused},
	} {
		claim := plainClaim("r", 1)
		claim.Once = test.once
		got := mustApply(t, s, next(), 1, claim).(*applied.Claimed)
		testkit.Holds(t, got.Refusal == test.want && got.Jobs() == 0, name, "a claim got", got)
		before := testkit.Must(s.ClaimedBefore(&test.once, startAt+1))(t)
		testkit.Holds(t, before != nil && before.Refusal == test.want, name, "looked up as", before)
		if name == "another kind" {
			continue
		}
		end := job.Complete{Outcomes: []job.Outcome{{ID: made.Batch, Code: job.OK, ExitCode: 200, DelayMs: -1}}, Once: test.once}
		ended := mustApply(t, s, next(), 1, end).(*applied.Ended)
		testkit.Holds(t, ended.Denied == test.want && len(ended.Results) == 0, name, "a completion got", ended)
	}
	// Number 8 replaces number 7. Other slots are not affected.
	create.Once.Number = 8
	got := mustApply(t, s, next(), 1, create).(*applied.Made)
	testkit.Holds(t, !got.Replayed && got.Refusal == job.Granted, "the next number", got)
	create.Once.Number = 7
	testkit.Equal(t, mustApply(t, s, next(), 1, create).(*applied.Made).Refusal, job.NumberPassed, "the number before")
	create.Once.Slot = 1
	got = mustApply(t, s, next(), 1, create).(*applied.Made)
	testkit.Holds(t, !got.Replayed && got.Refusal == job.Granted, "another slot", got)
}

// TestRepeatedCompletionHasItsFirstResults: a repeated completion gets its first results, whatever has happened to the
// jobs since.
func TestRepeatedCompletionHasItsFirstResults(t *testing.T) {
	for name, once := range map[string]job.Once{
		"number": inSession(jobID(0, 1, 0), 1),
		"key":    {Scope: "complete r", Key: "k", Digest: job.Digest{1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, Options{})
			openSession(t, s, 1, 0)
			mustApply(t, s, 2, 0, plainCreate("a", "x", 5, 3))
			held := mustApply(t, s, 3, 0, plainClaim("r", 4)).(*applied.Claimed)
			outcome := func(line int, code job.Code) job.Outcome {
				return job.Outcome{ID: jobID(0, 2, line), Code: code, ExitCode: code.DefaultExitCode(), DelayMs: -1}
			}
			first := job.Complete{Claim: held.Claim, Outcomes: []job.Outcome{outcome(0, job.OK), outcome(1, job.Fail), outcome(4, job.OK)}, Once: once}
			second := job.Complete{Claim: held.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}, Once: once}
			second.Once.Part = 1
			claim := plainClaim("r", 1)
			claim.Once = once
			want := []*applied.Ended{mustApply(t, s, 4, 10, first).(*applied.Ended), mustApply(t, s, 5, 10, second).(*applied.Ended)}
			took := mustApply(t, s, 6, 10, claim).(*applied.Claimed)
			testkit.MustHold(t, want[1].All == 3 && want[0].Results[2].Refusal == job.ClaimLost && took.Jobs() == 1, want[0], want[1], took)
			mustApply(t, s, 7, 11, job.Move{Op: job.Redrive, Batch: jobID(0, 2, 0), Status: job.Failed})
			mustStore(t, s, 8, 11, job.Move{Op: job.Delete, Batch: jobID(0, 2, 0), Status: job.Completed})
			for i, cmd := range []job.Complete{first, second} {
				want[i].Replayed, want[i].Seq, want[i].At = true, uint64(4+i), startAt+10
				looked, err := s.EndedBefore(&cmd, startAt+12)
				for how, got := range map[string]*applied.Ended{"applied again": mustApply(t, s, uint64(20+i), 12, cmd).(*applied.Ended), "looked up": looked} {
					testkit.Holds(t, err == nil && got != nil && got.All == want[i].All && slices.Equal(got.Results, want[i].Results) &&
						got.Seq == want[i].Seq && got.At == want[i].At && got.Replayed, how, got, err, "first", want[i])
				}
			}
			again := mustApply(t, s, 30, 12, claim).(*applied.Claimed)
			testkit.Holds(t, again.Replayed && again.Claim == took.Claim, "the claim again", again, "first", took)
			second.Once.Part = 3 // part 2 is missing
			testkit.Equal(t, mustApply(t, s, 31, 12, second).(*applied.Ended).Denied, job.KeyReused, "a part without the one before")
			first.Outcomes = first.Outcomes[:1] // as in another request with the same digest
			testkit.Equal(t, mustApply(t, s, 32, 12, first).(*applied.Ended).Denied, job.KeyReused, "a part with other outcomes")
		})
	}
}

// TestIdleSessionIsForgotten: a session is deleted a day after its last request. No request moves its timer.
func TestIdleSessionIsForgotten(t *testing.T) {
	s := mustOpen(t, Options{})
	id, idle := openSession(t, s, 1, 0), openSession(t, s, 2, 5)
	timers := rowsOf(t, s, row.TimerTable)
	create := plainCreate("a", "x", 1, 3)
	create.Once = inSession(id, 1)
	mustStore(t, s, 3, job.KeyLifeMs-1, create)
	testkit.Equal(t, s.NextDue(), startAt+job.KeyLifeMs, "the next timer", timers)
	exists := func(id job.ID) bool {
		t.Helper()
		mustCommit(t, s)
		_, err := s.SessionDocument(id)
		testkit.Holds(t, err == nil || err == job.SessionNotFound, err)
		return err == nil
	}
	mustApply(t, s, 4, job.KeyLifeMs, job.Tick{})
	testkit.Holds(t, exists(id) && exists(idle), "a day after it was opened: used", exists(id), "idle", exists(idle))
	mustApply(t, s, 5, job.KeyLifeMs+5, job.Tick{})
	testkit.Holds(t, exists(id) && !exists(idle), "when the idle one ends: used", exists(id), "idle", exists(idle))
	mustApply(t, s, 6, 2*job.KeyLifeMs-2, job.Tick{})
	testkit.Holds(t, exists(id), "the used one is forgotten early")
	mustApply(t, s, 7, 2*job.KeyLifeMs-1, job.Tick{})
	testkit.Holds(t, !exists(id), "the session is there a day after its last request")
	testkit.Equal(t, rowsOf(t, s, row.SlotTable), 0, "slots a day after its last request")
	testkit.Equal(t, s.Totals().Sessions, 0, "sessions a day after its last request")
}

// TestEndedSession: the end of a session deletes everything that the session remembered, committed or not.
func TestEndedSession(t *testing.T) {
	s := mustOpen(t, Options{})
	id := openSession(t, s, 1, 0)
	create := plainCreate("a", "x", 1, 3)
	create.Once = inSession(id, 1)
	mustStore(t, s, 2, 0, create)
	create.Once = inSession(id, 2)
	mustApply(t, s, 3, 0, create)
	create.Once.Slot = job.MaxSlots - 1
	mustApply(t, s, 4, 0, create)
	testkit.Equal(t, mustApply(t, s, 5, 0, job.EndSession{Session: id}).(*applied.SessionEnded).Refusal, job.Granted)
	testkit.Equal(t, mustApply(t, s, 6, 0, job.EndSession{Session: id}).(*applied.SessionEnded).Refusal, job.SessionNotFound)
	testkit.Equal(t, mustApply(t, s, 7, 0, create).(*applied.Made).Refusal, job.SessionNotFound, "a request of it")
	mustCommit(t, s)
	for _, table := range []byte{row.SessionTable, row.SlotTable, row.OnceTable} {
		testkit.Equal(t, rowsOf(t, s, table), 0, table)
	}
	testkit.Fails(s.SessionDocument(id))(t, job.SessionNotFound)
}

// TestCachedSlotsAreBoundedByTheirBytes: sessions with large results of creates and completions use no more memory than
// the bound of the cache.
func TestCachedSlotsAreBoundedByTheirBytes(t *testing.T) {
	const limit, sessions, slots = 1 << 20, 20, 8
	b := memory.StandardBounds
	b.SlotBytes = limit
	s := mustOpen(t, Options{bounds: &b})
	seq := uint64(1)
	next := func() uint64 { seq++; return seq }
	first := plainCreate("a", "x", job.MaxUniqueKeys, 3)
	for line := range job.MaxUniqueKeys {
		first.Unique = append(first.Unique, job.UniqueKey{Line: line, Key: fmt.Sprint(line)})
	}
	mustApply(t, s, next(), 0, first)
	held := func() (bytes int) {
		for l := range s.machine.Slots.All() {
			bytes += l.Size()
		}
		for n := range s.machine.Sessions.All() {
			bytes += 200 * len(n.Written)
		}
		return bytes
	}
	var ids []job.ID
	for range sessions {
		seq := next()
		ids = append(ids, openSession(t, s, seq, 0))
	}
	most := 0
	for slot := range slots {
		for _, id := range ids {
			again := *first
			again.Once = job.Once{Session: id, Slot: slot, Number: 1}
			testkit.MustEqual(t, len(mustApply(t, s, next(), 0, &again).(*applied.Made).Existing), job.MaxUniqueKeys)
			mustCommit(t, s)
			most = max(most, held())
		}
	}
	testkit.Holds(t, most >= limit/2 && most <= limit+limit/10, sessions*slots, "slots took up to", most, "bytes of", limit, "to cache")
	for _, id := range ids { // rows that were dropped are read again
		again := *first
		again.Once = job.Once{Session: id, Number: 1}
		made := mustApply(t, s, next(), 0, &again).(*applied.Made)
		testkit.MustHold(t, made.Replayed && len(made.Existing) == job.MaxUniqueKeys, "repeated", made)
	}
}

// fewSessions opens a store in which at most this number of sessions may be open.
func fewSessions(t *testing.T, most uint64) *Store {
	b := memory.StandardBounds
	r := row.Levels[len(row.Levels)-1].Rules
	r.Sessions = most
	b.Rules = &r
	return mustOpen(t, Options{bounds: &b})
}

// TestTooManySessions: at the limit, a new session replaces one that is not in use. If there is none, it is refused.
func TestTooManySessions(t *testing.T) {
	const most = 5
	s := fewSessions(t, most)
	seq := uint64(0)
	open := func(at int64) (job.ID, job.Refusal) {
		seq++
		got := mustStore(t, s, seq, at, job.OpenSession{Runner: fmt.Sprint("r", seq)}).(*applied.SessionOpened)
		return got.Session.ID, got.Refusal
	}
	use := func(id job.ID, at int64, number uint64) {
		seq++
		create := plainCreate("a", "x", 1, 3)
		create.Once = inSession(id, number)
		got := mustApply(t, s, seq, at, create).(*applied.Made)
		testkit.MustEqual(t, got.Refusal, job.Granted, "number", number, "of", id, "is refused")
	}
	has := func(id job.ID) bool { _, err := s.SessionDocument(id); return err == nil }
	var ids []job.ID
	for i := range int64(most) {
		id, refusal := open(i)
		testkit.MustEqual(t, refusal, job.Granted)
		ids = append(ids, id)
	}
	use(ids[0], 10, 1)
	use(ids[2], 20, 1)
	use(ids[4], 30, 1)
	id, refusal := open(job.UnusedSessionMs)
	testkit.Holds(t, refusal == job.TooManySessions && id.IsZero(), "while all are young", refusal)
	// Sessions without any request are replaced first, the oldest first. A session that was opened a moment ago is not.
	now := int64(job.UnusedSessionMs + 3)
	for _, old := range []job.ID{ids[1], ids[3]} {
		_, refusal := open(now)
		testkit.Holds(t, refusal == job.Granted && !has(old), "unused session", old, refusal, "still there", has(old))
	}
	_, refusal = open(now)
	testkit.Equal(t, refusal, job.TooManySessions, "when no unused one is old")
	// Then the session that was used least recently is replaced, if that was an hour ago.
	use(ids[0], now, 2)
	unused := []job.ID{}
	for now = int64(20 + job.IdleSessionMs); ; { // the sessions above have been unused for long
		id, refusal := open(now)
		testkit.MustEqual(t, refusal, job.Granted)
		unused = append(unused, id)
		if !has(ids[2]) {
			break
		}
	}
	testkit.Holds(t, has(ids[0]) && has(ids[4]) && len(unused) == 3, "after", len(unused), "more sessions", has(ids[0]), has(ids[4]))
	_, refusal = open(now)
	testkit.Equal(t, refusal, job.TooManySessions, "when all others were used within the hour")
	seq++
	testkit.Equal(t, mustApply(t, s, seq, now, job.EndSession{Session: ids[4]}).(*applied.SessionEnded).Refusal, job.Granted)
	_, refusal = open(now)
	testkit.Equal(t, refusal, job.Granted, "after one has ended")
	sound(t, s)
	testkit.Equal(t, rowsOf(t, s, row.IdleTable), most)
}

// TestSessionsAreShared: a runner, or all sessions without a runner together, may have as many sessions as are still
// free. Beyond that, a new session replaces only the runner's own unused sessions. A runner with few sessions may
// replace other runners' sessions.
func TestSessionsAreShared(t *testing.T) {
	s := fewSessions(t, 40)
	seq := uint64(0)
	open := func(at int64, runner string) (id job.ID, refusal job.Refusal) {
		seq++
		got := mustApply(t, s, seq, at, job.OpenSession{Runner: runner}).(*applied.SessionOpened)
		return got.Session.ID, got.Refusal
	}
	all := func(at int64, runner string) (ids []job.ID) {
		for {
			id, refusal := open(at, runner)
			if refusal != job.Granted {
				return ids
			}
			ids = append(ids, id)
		}
	}
	has := func(id job.ID) bool {
		mustCommit(t, s)
		_, err := s.SessionDocument(id)
		return err == nil
	}
	greedy := all(0, "")
	testkit.Equal(t, len(greedy), 20, "those without a name have opened")
	testkit.Equal(t, len(all(1, "other")), 10, "another one has opened")
	third, refusal := open(2, "third")
	testkit.Equal(t, refusal, job.Granted)
	again, refusal := open(job.UnusedSessionMs, "")
	testkit.Holds(t, refusal == job.Granted && !has(greedy[0]) && has(again) && has(third), refusal, "the first is there", has(greedy[0]))
	seq++
	create := plainCreate("a", "x", 1, 3)
	create.Once = inSession(greedy[1], 1)
	mustApply(t, s, seq, job.UnusedSessionMs, create)
	for range 18 { // the remaining sessions without any request
		_, refusal := open(job.UnusedSessionMs, "")
		testkit.Equal(t, refusal, job.Granted)
	}
	_, refusal = open(job.UnusedSessionMs, "")
	testkit.Holds(t, refusal == job.TooManySessions && has(greedy[1]) && has(third), "when its own are in use", refusal)
	_, refusal = open(job.UnusedSessionMs+job.IdleSessionMs, "other")
	testkit.Equal(t, refusal, job.Granted)
	for i := 0; s.machine.Live.Meta.Sessions < 40; i++ {
		_, refusal := open(job.UnusedSessionMs+job.IdleSessionMs, fmt.Sprint("r", i))
		testkit.MustEqual(t, refusal, job.Granted)
	}
	if id, refusal := open(job.UnusedSessionMs+job.IdleSessionMs, "new"); refusal != job.Granted || !has(id) || s.machine.Live.Meta.Sessions != 40 {
		t.Errorf("one that has none: %v, of %d", refusal, s.machine.Live.Meta.Sessions)
	}
	sound(t, s)
}

// TestSessionsInUseAreLookedAtInParts: a request reads a bounded number of sessions that were used since their idle row
// was written, and the next request continues.
func TestSessionsInUseAreLookedAtInParts(t *testing.T) {
	const most = 2*machine.IdleLooks + 10
	s := fewSessions(t, most)
	seq := uint64(0)
	next := func() uint64 { seq++; return seq }
	var ids []job.ID
	for range most {
		at := next()
		ids = append(ids, openSession(t, s, at, 0))
	}
	create := plainCreate("a", "x", 1, 3)
	for _, id := range ids {
		create.Once = inSession(id, 1)
		mustApply(t, s, next(), 0, create)
	}
	for _, id := range ids[:most-1] {
		create.Once = inSession(id, 3)
		mustApply(t, s, next(), job.IdleSessionMs, create)
	}
	for i, want := range []job.Refusal{job.TooManySessions, job.TooManySessions, job.Granted, job.TooManySessions} {
		testkit.Equal(t, mustApply(t, s, next(), job.IdleSessionMs, job.OpenSession{}).(*applied.SessionOpened).Refusal, want, "attempt", i)
	}
}

// TestCheckFindsDamageInSessions breaks each invariant of sessions that Check promises to find.
func TestCheckFindsDamageInSessions(t *testing.T) {
	for name, doctor := range map[string]func(s *Store, n *row.Session, l *row.Slot){
		"a count too high": func(s *Store, _ *row.Session, _ *row.Slot) { s.machine.Live.Meta.Sessions++ },
		"no idle row":      func(s *Store, n *row.Session, _ *row.Slot) { s.machine.DeleteIdle(n) },
		"an idle row too many": func(s *Store, n *row.Session, _ *row.Slot) {
			s.machine.O.Set(row.IdleKey(!n.Used, n.IdleAt, n.Seq), nil)
		},
		"an idle row that is late": func(s *Store, n *row.Session, _ *row.Slot) {
			s.machine.DeleteIdle(n)
			n.UsedAt++
			s.machine.PutIdle(n)
			n.UsedAt--
		},
		"no timer": func(s *Store, n *row.Session, _ *row.Slot) {
			s.machine.DeleteTimer(row.TimerKey(n.TimerAt, row.SessionTimer, n.Seq, 0, 0))
		},
		"a timer too many": func(s *Store, n *row.Session, _ *row.Slot) {
			s.machine.SetTimer(row.TimerKey(n.TimerAt+1, row.SessionTimer, n.Seq, 0, 0))
		},
		"a timer that is late": func(s *Store, n *row.Session, _ *row.Slot) { n.UsedAt = n.At - 1; s.machine.Touch(&n.Dirty, n) },
		"used in the future": func(s *Store, n *row.Session, _ *row.Slot) {
			n.UsedAt = s.machine.Live.Meta.At + 1
			s.machine.Touch(&n.Dirty, n)
		},
		"a slot of no session":      func(s *Store, _ *row.Session, l *row.Slot) { s.machine.O.Set(row.SlotKey(99, 0), l.Encode()) },
		"a slot without a number":   func(s *Store, _ *row.Session, l *row.Slot) { l.Number = 0; s.machine.Touch(&l.Dirty, l) },
		"a slot that did nothing":   func(s *Store, _ *row.Session, l *row.Slot) { l.Done = &row.Done{}; s.machine.Touch(&l.Dirty, l) },
		"a slot used in the future": func(s *Store, n *row.Session, l *row.Slot) { l.Done.At = n.UsedAt + 1; s.machine.Touch(&l.Dirty, l) },
		"a row that is cut":         func(s *Store, n *row.Session, l *row.Slot) { s.machine.O.Set(row.SlotKey(n.Seq, 5), l.Encode()[:5]) },
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, Options{})
			id := openSession(t, s, 1, 0)
			create := plainCreate("a", "x", 1, 3)
			create.Once = inSession(id, 1)
			mustStore(t, s, 2, 0, create)
			sound(t, s, "before")
			n := s.machine.SessionOf(id)
			l := s.machine.Slot(row.SlotName{n.Seq, 0})
			l.Session = n
			doctor(s, n, l)
			s.pending = true
			mustCommit(t, s)
			testkit.Holds(t, len(problemsOf(t, s)) != 0, "nothing is found")
			testkit.Check(t, s.Close())
		})
	}
}
