package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

// ledger is what the users of a cluster know. Each job has a tag of its own, which begins its payload.
type ledger struct {
	began time.Time

	mu        sync.Mutex
	creates   map[string]*create
	completed map[string]completion // acknowledged ones, by the id of the job
	outputs   map[string]map[string]bool
	events    map[string][]event // of the jobs of claimers, by id
	// Claims of claimers that were repeated, and claims that were answered without jobs; see model.
	repeated, empty []event
	wrong           []string
	count           tally
}

// known is what a producer knows of a job that it has asked for.
type known uint8

const (
	asked   known = iota // no answer says whether it is stored
	refused              // an answer says that it is not stored
	acked
)

// create is a job that a producer has asked for.
type create struct {
	known   known
	id      string // "" if it is not known
	follows bool   // another job follows its completion
}

// completion is an outcome that a runner saw acknowledged.
type completion struct{ output string }

// tally counts events. It is one flat list, since each field is a column of the report.
type tally struct {
	Faults                         int
	Asked, Acked, Unknown, Refused int // jobs: asked for, acknowledged, without an answer, refused
	Completed, Claimed, Stale      int // acknowledged outcomes; jobs handed out; outcomes that were refused as stale
	Reads                          int // of acknowledged jobs, at any node, under load
	Jobs                           int // at the end, compared at all nodes
	Lost, Doubled, Wrong           int
	Histories, Operations          int
	Undecided, Violations          int
}

func newLedger() *ledger {
	return &ledger{began: time.Now(), creates: map[string]*create{}, completed: map[string]completion{}, outputs: map[string]map[string]bool{}, events: map[string][]event{}}
}

// now returns the time since the ledger began.
func (l *ledger) now() int64 { return int64(time.Since(l.began)) }

// problem records what no order of the requests explains.
func (l *ledger) problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problemLocked(format, args...)
}

func (l *ledger) problemLocked(format string, args ...any) {
	l.count.Wrong++
	if len(l.wrong) < 100 {
		l.wrong = append(l.wrong, fmt.Sprintf("%.3f s: ", time.Since(l.began).Seconds())+fmt.Sprintf(format, args...))
	}
}

func (l *ledger) tally(f func(*tally)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.count)
}

// ask records that jobs with these tags are asked for.
func (l *ledger) ask(follows bool, tags ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Asked += len(tags)
	l.count.Unknown += len(tags)
	for _, tag := range tags {
		l.creates[tag] = &create{follows: follows}
	}
}

// answer records the answer to a create: the ids of the jobs, or an error.
func (l *ledger) answer(err error, ids []string, tags ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && len(ids) != len(tags):
		l.problemLocked("%d jobs were asked for, and %d acknowledged: %v", len(tags), len(ids), tags)
	case err == nil:
		for i, tag := range tags {
			l.creates[tag].known, l.creates[tag].id = acked, ids[i]
		}
		l.count.Unknown -= len(tags)
		l.count.Acked += len(tags)
	case isOpen(err):
	default:
		for _, tag := range tags {
			l.creates[tag].known = refused
		}
		l.count.Unknown -= len(tags)
		l.count.Refused += len(tags)
	}
}

// isOpen reports whether a request without success may have been carried out, or was carried out without an answer that says
// how.
func isOpen(err error) bool {
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Outcome == "stored" {
		return true
	}
	return errors.Is(err, client.ErrUnknown) || errors.Is(err, client.ErrUnexpectedAnswer)
}

// batchIDs returns the ids of the jobs of a batch.
func batchIDs(first string, count int) (ids []string) {
	id, err := job.ParseID(first)
	if err != nil {
		return nil
	}
	for line := range count {
		ids = append(ids, id.WithLine(id.Line()+line).String())
	}
	return ids
}

// complete records an acknowledged outcome.
func (l *ledger) complete(id, output string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ended := l.completed[id]; ended && before.output != output {
		l.problemLocked("job %s was completed twice, with the outputs %q and %q", id, before.output, output)
	}
	l.completed[id] = completion{output}
	l.count.Completed++
}

// returns records an output that a handler returned, and whose report may be acknowledged or not.
func (l *ledger) returns(id, output string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outputs[id] == nil {
		l.outputs[id] = map[string]bool{}
	}
	l.outputs[id][output] = true
}

// event records an event of a job of the claimers.
func (l *ledger) event(id string, e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events[id] = append(l.events[id], e)
	switch {
	case e.kind == handed:
		l.count.Claimed++
	case e.refused:
		l.count.Stale++
	}
}

// stored is a job as a node has it at the end.
type stored struct {
	id, typ, status, tag, of, output string
	attempts                         int
}

// judge compares the jobs that a node has at the end with the ledger.
func (l *ledger) judge(jobs []stored) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Jobs += len(jobs)
	byTag, byID, next := map[string][]stored{}, map[string]stored{}, map[string][]stored{}
	for _, j := range jobs {
		byID[j.id] = j
		switch {
		case j.typ == nextType:
			next[j.of] = append(next[j.of], j)
		case l.creates[j.tag] == nil:
			l.problemLocked("job %s with tag %q was never asked for", j.id, j.tag)
		default:
			byTag[j.tag] = append(byTag[j.tag], j)
		}
		if j.status != "completed" {
			l.problemLocked("job %s with tag %q is %s at the end", j.id, j.tag, j.status)
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(l.creates)) {
		c, of := l.creates[tag], byTag[tag]
		switch {
		case len(of) > 1:
			l.count.Doubled++
			l.problemLocked("tag %s is stored %d times: %+v", tag, len(of), of)
		case c.known == acked && len(of) == 0:
			l.count.Lost++
			l.problemLocked("job %s with tag %s was acknowledged and is lost", c.id, tag)
		case c.known == acked && of[0].id != c.id:
			l.problemLocked("tag %s was acknowledged as job %s, and is stored as job %s", tag, c.id, of[0].id)
		case c.known == refused && len(of) > 0:
			l.problemLocked("the create of tag %s was refused as not stored, and it is stored as job %s", tag, of[0].id)
		}
		if followers := next[tag]; len(of) == 1 && c.follows && (len(followers) != 1 || followers[0].tag != of[0].output) {
			l.problemLocked("job %s with tag %s and output %q is followed by %+v", of[0].id, tag, of[0].output, followers)
		} else if !c.follows && len(followers) > 0 {
			l.problemLocked("tag %s is followed by %+v", tag, followers)
		}
	}
	for id, c := range l.completed {
		if j, found := byID[id]; !found || j.status != "completed" || j.output != c.output {
			l.problemLocked("job %s was acknowledged as completed with %q, and is %+v", id, c.output, j)
		}
	}
	for id, j := range byID {
		if returned := l.outputs[id]; j.status == "completed" && !returned[j.output] {
			l.problemLocked("job %s has the output %q, and handlers have returned %v", id, j.output, returned)
		}
		if events := l.events[id]; events != nil || j.typ == claimedType {
			l.events[id] = append(events, event{kind: observed, call: l.now(), ret: l.now(), status: statusOf(j.status), attempts: j.attempts, output: j.output})
		}
	}
	l.judgeHistories()
}

// otherClaim records a claim that was answered without jobs, or whose answer was a repeat.
func (l *ledger) otherClaim(e event, repeated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if repeated {
		l.repeated = append(l.repeated, e)
	} else {
		l.empty = append(l.empty, e)
	}
}
