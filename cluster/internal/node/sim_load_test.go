package node

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
)

// load is the requests of producers and runners at all machines, what these were told, and what the log says.
type load struct {
	requests int        // that were made
	again    []*request // that were not answered, and whose callers repeat them
	waiting  map[*request]*machine
	attempts map[string]*fate // what was told of each command, by its text
	log      []string         // the commands by seq, from 1 on; as the first node that delivered each had it
	lines    []string         // the same, with their times and places
	digests  map[uint64]uint64
	acked    uint64   // the highest seq of an answered command
	claims   []job.ID // that have jobs
	jobs     int64    // that the log creates
}

func newLoad() load {
	return load{waiting: map[*request]*machine{}, attempts: map[string]*fate{}, digests: map[uint64]uint64{}}
}

// request is a command that its caller repeats under the same key until it is answered, at any machine.
type request struct {
	number   int
	key      string
	make     func(attempt int) job.Command
	attempts int
	made     int // how often the log carries it out, and not as a repetition
}

// fate is what a process was told of a command.
type fate struct {
	of  *request
	seq uint64
	err error
	any bool
}

// next returns a request: one without an answer, or a new one.
func (w *world) next() *request {
	if len(w.again) > 0 && w.IntN(4) == 0 {
		i := w.IntN(len(w.again))
		r := w.again[i]
		w.again = slices.Delete(w.again, i, i+1)
		w.figures.Again++
		return r
	}
	r := &request{number: w.requests, key: fmt.Sprint("k", w.requests)}
	w.requests++
	once := job.Once{Scope: "sim", Key: r.key}
	switch k := w.IntN(10); {
	case k < 5:
		lines := 1 + w.IntN(5)
		r.make = func(attempt int) job.Command {
			var body []byte
			for i := range lines {
				body = fmt.Appendf(body, "%s attempt %d line %d\n", r.key, attempt, i)
			}
			payloads, _, longest := job.TrimLines(body)
			return &job.Create{Frame: job.LineFrame, Longest: longest, Payloads: payloads, Once: once, Groups: []job.Group{{
				Lines: lines, Client: "default", Type: "default", Attributes: job.Attributes{Kind: job.Text, Priority: 4, MaxAttempts: 3, LeaseMs: 60_000,
					Backoff: job.Backoff{InitialMs: 1000, FactorMilli: 2000, MaxMs: 10_000}, RetentionMs: 1_000_000},
			}}}
		}
	case k < 8 || len(w.claims) == 0:
		most := 1 + w.IntN(8)
		r.make = func(attempt int) job.Command {
			return job.Claim{Runner: fmt.Sprint(r.key, ".", attempt), Max: most, MaxBytes: job.MaxClaimBytes, Once: once}
		}
	default:
		claim := w.claims[w.IntN(len(w.claims))]
		r.make = func(attempt int) job.Command {
			return job.Complete{Claim: claim, Once: once, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{ProcessExit: new(int64(attempt))}}}
		}
	}
	return r
}

// propose lets a process propose a command, whose fate the world remembers.
func (w *world) propose(m *machine) {
	r := w.next()
	cmd := r.make(r.attempts)
	r.attempts++
	w.waiting[r] = m
	fields, body := cmd.Encode()
	f := &fate{of: r}
	name := fmt.Sprintf("%s %s %s", cmd.Verb(), fields, body)
	if w.attempts[name] != nil {
		panic("two attempts are the same: " + name)
	}
	w.attempts[name] = f
	p := &journal.Proposal{Lane: journal.Lane(w.IntN(2)), Verb: cmd.Verb(), Fields: fields, Body: body, Tag: f}
	before := m.node.Time()
	p.Done = func(seq uint64, at int64, err error) {
		if f.any {
			panic(name + " was answered twice")
		}
		if err == nil && at < before {
			panic(fmt.Sprintf("%s has the time %d, and the log's was %d before", name, at, before))
		}
		f.seq, f.err, f.any = seq, err, true
		delete(w.waiting, r)
		if err != nil {
			w.again = append(w.again, r)
		}
		switch refused, is := errors.AsType[*Refused](err); {
		case err == nil:
			w.acked = max(w.acked, seq)
			w.figures.Acked++
		case is && refused.Why == "disk_full":
			w.figures.Refused++
		case errors.Is(err, journal.ErrNotStored):
			w.figures.NotStored++
		default:
			w.figures.Unknown++
		}
	}
	m.node.Propose(p)
}

// hangUp ends the connections of callers to a machine.
func (w *world) hangUp(m *machine) {
	from := len(w.again)
	for r, at := range w.waiting {
		if at == m {
			w.again = append(w.again, r)
			delete(w.waiting, r)
		}
	}
	slices.SortFunc(w.again[from:], func(a, b *request) int { return cmp.Compare(a.number, b.number) })
}

// open opens the store of a machine, as its disk has it.
func (w *world) open(m *machine) {
	s, err := store.Open("store", store.Options{FS: m.fs, Journal: "0b5c7e0e-7a1f-4a53-9a9a-3d6c1f0f6f3e", MemtableBytes: 64 << 20, CacheBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	m.store, m.applied = s, s.Applied()
	if m.applied != m.saved.seq {
		panic(fmt.Sprintf("the store of node %d was saved at %d, and is at %d", m.id, m.saved.seq, s.Applied()))
	}
}

// close closes the store of a machine, which has not saved everything.
func (w *world) close(m *machine) {
	if err := m.store.Close(); err != nil {
		panic(err)
	}
	m.store = nil
}

// end closes all stores.
func (w *world) end() {
	for _, m := range w.machines {
		if m.store != nil {
			m.store.Close()
		}
	}
}

// commit lets readers see what a store has applied.
func (w *world) commit(m *machine) {
	if err := m.store.Commit(); err != nil {
		panic(err)
	}
}

// save writes the store of a machine to its disk. Its log has everything that the store has.
func (w *world) save(m *machine) {
	w.commit(m)
	if err := m.store.FlushWait(); err != nil {
		panic(err)
	}
	m.saved = saved{m.store.Cluster(), m.store.Applied(), m.node == nil || m.store.Applied() == m.node.Position().Seq}
}

// delivered applies a record, and compares it and its result with what the other machines had at this seq.
func (w *world) delivered(m *machine, r *journal.Record) {
	if r.Seq != m.applied+1 {
		panic(fmt.Sprintf("node %d delivers %d after %d", m.id, r.Seq, m.applied))
	}
	m.applied = r.Seq
	by, cmd, err := job.DecodeRecord(r.Verb, r.Fields, slices.Clone(r.Body))
	if err != nil {
		panic(err)
	}
	result, err := m.store.ApplyRecord(r.Seq, r.At, (*job.Place)(r.Place), &by, cmd)
	if err != nil {
		panic(err)
	}
	name := fmt.Sprintf("%s %s %s", r.Verb, r.Fields, r.Body)
	line := fmt.Sprintf("%d %+v %s", r.At, *r.Place, name)
	if f, own := r.Tag.(*fate); own && (!f.any || f.seq != r.Seq) {
		panic(fmt.Sprintf("a tag of %+v at %d", f, r.Seq))
	} else if own && f.err == nil && result == nil {
		panic(fmt.Sprintf("command %d was answered, and the store does not carry it out: %s", r.Seq, name))
	}
	switch at := int(r.Seq) - 1; {
	case at == len(w.log):
		w.log = append(w.log, name)
		w.lines = append(w.lines, line)
		w.note(name, result)
	case at > len(w.log) || w.lines[at] != line:
		panic(fmt.Sprintf("node %d has %q at %d, another node has not", m.id, line, r.Seq))
	}
	w.figures.Applied++
	fmt.Fprintln(w.trace, m.id, r.Seq, line)
	if r.Seq%64 == 0 {
		w.compare(m)
	}
}

// note notes what the first store made of a command.
func (w *world) note(name string, result applied.Result) {
	carriedOut := false
	switch result := result.(type) {
	case *applied.Made:
		if carriedOut = !result.Replayed && result.Refusal == job.Granted; carriedOut {
			w.jobs += int64(result.Lines)
		}
	case *applied.Claimed:
		// A claim without jobs is not remembered under its key.
		if carriedOut = !result.Replayed && len(result.Runs) > 0; carriedOut {
			w.claims = append(w.claims, result.Claim)
		}
	case *applied.Ended:
		carriedOut = !result.Replayed && result.Refusal == job.Granted
	}
	if f := w.attempts[name]; f != nil && carriedOut {
		if f.of.made++; f.of.made > 1 {
			panic(fmt.Sprintf("request %s was carried out twice", f.of.key))
		}
	}
}

// compare compares the store of a machine with those of the others at the same seq.
func (w *world) compare(m *machine) {
	w.commit(m)
	digest, _, err := m.store.Digest()
	if err != nil {
		panic(err)
	}
	seq := m.store.Applied()
	if other, known := w.digests[seq]; known {
		w.figures.Compared++
		if digest != other {
			panic(fmt.Sprintf("the store of node %d is not what that of another node was at %d", m.id, seq))
		}
	}
	w.digests[seq] = digest
	fmt.Fprintln(w.trace, m.id, seq, digest)
}

// check compares the stores with each other, and the answers with the log and with the stores.
func (w *world) check() {
	last := w.machines[0]
	for _, m := range w.machines {
		if m.store.Applied() > last.store.Applied() {
			last = m
		}
	}
	cluster := last.store.Cluster()
	for _, m := range w.machines {
		if conf := ConfState(cluster.Members); !slices.Contains(conf.Voters, m.id) && !slices.Contains(conf.Learners, m.id) {
			continue // a member that was removed, or never added, gets nothing more
		}
		if of := m.store.Cluster(); !reflect.DeepEqual(of, cluster) {
			panic(fmt.Sprintf("node %d knows %+v of the cluster, node %d knows %+v", m.id, of, last.id, cluster))
		}
		if seq := m.store.Applied(); seq != uint64(len(w.log)) {
			panic(fmt.Sprintf("node %d has %d commands, and the log has %d", m.id, seq, len(w.log)))
		}
		if waiting := m.node.Waiting(); waiting > 0 {
			panic(fmt.Sprintf("node %d has not answered %d commands", m.id, waiting))
		}
		if len(m.asked) > 0 {
			panic(fmt.Sprintf("node %d has not answered %d questions", m.id, len(m.asked)))
		}
		w.compare(m)
		first := ""
		if n, err := m.store.Check(func(problem string) bool { first = problem; return false }); n > 0 || err != nil {
			panic(fmt.Sprintf("the store of node %d is damaged: %s %v", m.id, first, err))
		}
	}
	jobs := int64(0)
	for _, n := range last.store.Totals().Counts {
		jobs += n
	}
	if jobs != w.jobs {
		panic(fmt.Sprintf("%d jobs are stored, and %d were created", jobs, w.jobs))
	}
	w.figures.Jobs += int(jobs)
	at := map[string]uint64{}
	for i, name := range w.log {
		if w.attempts[name] == nil {
			continue // an announcement, a change of the members, or a mark
		}
		if at[name] != 0 {
			panic(fmt.Sprintf("a command is in the log at %d and at %d: %s", at[name], i+1, name))
		}
		at[name] = uint64(i + 1)
	}
	for name, f := range w.attempts {
		switch seq := at[name]; {
		case !f.any: // its process lost its power
		case f.err == nil && seq != f.seq:
			panic(fmt.Sprintf("a command was answered with seq %d, and is at %d: %s", f.seq, seq, name))
		case f.err == nil && f.of.made == 0 && !strings.HasPrefix(name, "claim "):
			panic(fmt.Sprintf("a command was answered with seq %d, and was not carried out: %s", f.seq, name))
		case errors.Is(f.err, journal.ErrNotStored) && seq != 0:
			panic(fmt.Sprintf("a command was answered with %v, and is at %d: %s", f.err, seq, name))
		}
	}
}
