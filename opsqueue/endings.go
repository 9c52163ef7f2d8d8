package opsqueue

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/opsqueue/wire"
	"github.com/daybookq/daybook/store/applied"
)

// endings carries out the ends of runs of all connections in the order of arrival. These are reports of consumers, and
// ends of reservations without a report. Nobody waits for a report, so run delays it by up to joinWait. Usually the same
// consumer then requests its next chunk, and both are written to disk together. The end of a reservation is not delayed.
//
// A consumer assumes that a chunk is completed when it has reported the completion. So if an ending cannot be stored, the
// server tries again until it succeeds, and does not read from the connections until then.
type endings struct {
	s       *Server
	room    *semaphore.Weighted // for endings that are not stored yet
	arrived chan struct{}       // capacity 1; has a value when list may not be empty
	urgent  chan struct{}       // capacity 1; has a value when list may have endings that must not wait
	ctx     context.Context     // ends when endings need not be carried out any more
	stop    context.CancelFunc

	proposing chan struct{} // has a value while a goroutine takes and proposes endings, so that the log keeps their order

	mu     sync.Mutex
	list   []ending
	closed bool
}

// end adds an ending. Endings with long outputs have a separate list, because the engine refuses only these while the
// disk is almost full. So two reports about one chunk may be reordered if one of them is long. The consumer's next
// request waits until its long report is stored.
func (s *Server) end(one ending) {
	if one.isLong() {
		s.longEndings.add(one)
	} else {
		s.endings.add(one)
	}
}

// ending is the end of one run or of several. It is either a consumer's report about a chunk, whoever holds the chunk, or
// the end of a claim's reservations: of one job if the claim still holds it, or of all jobs that the claim still holds.
type ending struct {
	chunk   wire.ChunkID  // of a report whose outcome names no job
	held    job.ID        // of a report: the claim by which the connection held the job; zero: none
	claim   job.ID        // of reservations that end
	outcome job.Outcome   // names no job if it is for all jobs of the claim
	since   time.Time     // when the chunk was reserved; zero: unknown
	arrived time.Time     // when the consumer reported it; zero: it did not
	stored  chan struct{} // closed when it is stored or dropped; nil: nobody waits
}

// finish signals that an ending is stored or dropped.
func (e *ending) finish() {
	if e.stored != nil {
		close(e.stored)
	}
}

func finishAll(list []ending) {
	for i := range list {
		list[i].finish()
	}
}

const (
	// roomBytes bounds the memory of endings that are not stored yet. Each counts as endingBytes at least, which allows
	// as many as in the original.
	roomBytes   = 64 << 20
	endingBytes = roomBytes / 1024
	// maxShortBytes bounds the outputs and errors that one request stores together. A single ending may have more. While
	// the disk is almost full, the engine still accepts this much.
	maxShortBytes = 32 << 10
	// joinWait is how long a report waits for more reports.
	joinWait = time.Millisecond
	// An ending that could not be stored is tried again after shortestRetry. The interval doubles up to longestRetry.
	shortestRetry = 10 * time.Millisecond
	longestRetry  = time.Second
)

func newEndings(s *Server) *endings {
	e := &endings{s: s, room: semaphore.NewWeighted(roomBytes), arrived: make(chan struct{}, 1), urgent: make(chan struct{}, 1), proposing: make(chan struct{}, 1)}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

func (e *ending) bytes() int { return len(e.outcome.Output) + len(e.outcome.Error) }

func (e *ending) isLong() bool { return e.bytes() > maxShortBytes }

func (e *ending) weight() int64 { return int64(max(e.bytes(), endingBytes)) }

// add adds an ending. It waits while the pending endings fill roomBytes.
func (e *endings) add(one ending) {
	if e.room.Acquire(e.ctx, one.weight()) != nil {
		return // the server has stopped
	}
	e.mu.Lock()
	e.list = append(e.list, one)
	e.mu.Unlock()
	signal(e.arrived)
	if !one.claim.IsZero() {
		signal(e.urgent)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// close ends the adding of endings. run returns when it has carried out the remaining endings.
func (e *endings) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	signal(e.arrived)
	signal(e.urgent)
}

// until makes run return at the latest when ctx ends.
func (e *endings) until(ctx context.Context) { context.AfterFunc(ctx, e.stop) }

// run carries out endings until close.
func (e *endings) run() {
	defer e.stop()
	joining := time.NewTimer(joinWait)
	defer joining.Stop()
	for {
		select {
		case <-e.arrived:
		case <-e.ctx.Done():
			return
		}
		joining.Reset(joinWait)
		select {
		case <-joining.C:
		case <-e.urgent:
		case <-e.ctx.Done():
			return
		}
		for e.carryOutSome() {
		}
		if e.isClosed() {
			return
		}
	}
}

// carryOutSome stores some endings, and reports whether there were any.
func (e *endings) carryOutSome() bool {
	if !e.begin(e.ctx) {
		return false
	}
	defer e.end()
	list := e.take()
	e.carryOut(commandsOf(e.known(list), false))
	return len(list) > 0
}

// begin waits until no other goroutine proposes endings. It returns false if ctx ends first.
func (e *endings) begin(ctx context.Context) bool {
	select {
	case e.proposing <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *endings) end() { <-e.proposing }

// isClosed reports whether close was called and no endings are left.
func (e *endings) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed && len(e.list) == 0
}

// take removes endings that one request can carry. The caller must propose them before it calls end.
func (e *endings) take() (list []ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, bytes := 0, 0
	for n < len(e.list) && n < job.MaxOutcomes {
		if bytes += e.list[n].bytes(); n > 0 && bytes > maxShortBytes {
			break
		}
		n++
	}
	list, e.list = e.list[:n:n], e.list[n:]
	if len(e.list) == 0 {
		e.list = nil
	}
	for i := range list {
		e.room.Release(list[i].weight())
	}
	return list
}

// carryOut stores endings. If they cannot be stored, it tries again.
func (e *endings) carryOut(commands []endingCommand) {
	for wait := shortestRetry; len(commands) > 0; wait = min(2*wait, longestRetry) {
		ended, _, err := e.s.engine.CompleteInOrder(e.ctx, completions(commands))
		if commands = e.note(commands, ended, err); err == nil || e.ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(wait):
		case <-e.ctx.Done():
		}
	}
}

// note counts the results of the first commands. After an error, it returns the commands to try again.
func (e *endings) note(commands []endingCommand, ended []applied.Ended, err error) (again []endingCommand) {
	for i := range ended {
		e.s.metrics.ended(commands[i].of, ended[i].Results)
		finishAll(commands[i].of)
	}
	commands = commands[len(ended):]
	if err == nil || len(commands) == 0 {
		return nil
	}
	if errors.Is(err, ingest.ErrMalformed) || errors.Is(err, ingest.ErrTooLarge) { // trying again would not help
		e.s.log.Error("the ends of chunks cannot be stored", "chunks", len(commands[0].of), "error", err)
		finishAll(commands[0].of)
		commands = commands[1:]
	} else if e.ctx.Err() == nil {
		e.s.log.Warn("the ends of chunks cannot be stored now; trying again", "commands", len(commands), "error", err)
	}
	var list []ending
	for i := range commands {
		list = append(list, commands[i].of...)
	}
	return commandsOf(list, true)
}

// claim claims chunks, and stores the endings that have arrived together with that. It waits until there are chunks or
// ctx ends.
func (e *endings) claim(ctx context.Context, cmd job.Claim, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, error) {
	x := e.exchange(ctx, cmd)
	if x == nil {
		claimed, handed, _, err := e.s.engine.ClaimUntil(ctx, cmd, ctx.Done(), admit)
		return claimed, handed, err
	}
	defer x.Close()
	claimed, handed, _, err := x.Claimed(ctx, math.MaxInt64, admit)
	return claimed, handed, err
}

// exchange proposes the endings that have arrived, and then a claim. If there are no endings, or if they cannot be stored
// at the first attempt, it returns nil without a claim. The endings are stored by then.
func (e *endings) exchange(ctx context.Context, cmd job.Claim) *ingest.Exchange {
	if !e.begin(ctx) {
		return nil
	}
	list := e.known(e.take())
	commands := commandsOf(list, false)
	if len(commands) == 0 {
		e.end()
		return nil
	}
	x, err := e.s.engine.Exchange(e.ctx, completions(commands), cmd)
	if err != nil {
		e.carryOut(commands)
		e.end()
		return nil
	}
	e.end()
	ended, _, err := x.Ended(e.ctx)
	again := e.note(commands, ended, err)
	if err == nil {
		return x
	}
	// Later endings may be stored already. So if the journal fails, two reports about one chunk may be reordered.
	e.carryOut(again)
	return nil
}

// known looks up the jobs of chunks that the connections did not hold. It drops reports about unknown chunks, as the
// original does.
func (e *endings) known(list []ending) []ending {
	kept := list[:0]
	for _, one := range list {
		if one.outcome.ID.IsZero() && one.claim.IsZero() {
			id, err := e.lookUp(one.chunk)
			if one.outcome.ID = id; err != nil {
				e.s.log.Info("a consumer has reported the end of a chunk that is unknown", "submission_id", int64(one.chunk.SubmissionID), "chunk_index", one.chunk.Index, "error", err)
				one.finish()
				continue
			}
		}
		kept = append(kept, one)
	}
	return kept
}

// lookUp returns the job of a chunk, or an error if the chunk does not exist. If the store cannot be read, lookUp tries
// again. An insert is answered when it is in the log, so lookUp lets the state catch up before it takes a chunk for
// unknown.
func (e *endings) lookUp(chunk wire.ChunkID) (job.ID, error) {
	for wait := shortestRetry; ; wait = min(2*wait, longestRetry) {
		id, err := e.s.jobOf(chunk)
		if isUnknown(err) {
			if err = e.s.engine.CatchUp(e.ctx, 0); err == nil {
				id, err = e.s.jobOf(chunk)
			}
		}
		if err == nil || isUnknown(err) || e.ctx.Err() != nil {
			return id, err
		}
		e.s.log.Warn("the job of a chunk cannot be looked up; trying again", "error", err)
		select {
		case <-time.After(wait):
		case <-e.ctx.Done():
		}
	}
}

func isUnknown(err error) bool {
	return errors.Is(err, job.NotFound) || errors.Is(err, job.BatchNotFound)
}

func (s *Server) jobOf(chunk wire.ChunkID) (job.ID, error) {
	batch, doc, err := s.batchOf(chunk.SubmissionID)
	switch {
	case err != nil:
		return batch, err
	case doc.Lines <= chunk.Index:
		return batch, job.NotFound
	}
	return s.state.JobOf(batch, chunk.Index)
}

// endingCommand is a command with the endings that it carries out.
type endingCommand struct {
	job.Complete
	of []ending
}

// commandsOf joins consecutive endings that one command can carry out. A command ends each job at most once.
//
// If again is set, the endings may have been carried out already. Then the report of a chunk that the connection held
// names its claim, so that the end of the run is not counted twice.
func commandsOf(list []ending, again bool) (commands []endingCommand) {
	named := map[job.ID]bool{} // jobs of the last command
	for i := range list {
		one := &list[i]
		claim := one.claim
		if again && claim.IsZero() {
			claim = one.held
		}
		if one.outcome.ID.IsZero() {
			commands = append(commands, endingCommand{job.Complete{Claim: claim, All: &one.outcome}, list[i : i+1]})
			continue
		}
		last := len(commands) - 1
		if last < 0 || commands[last].Claim != claim || commands[last].All != nil || named[one.outcome.ID] {
			commands = append(commands, endingCommand{job.Complete{Claim: claim, Unclaimed: claim.IsZero()}, list[i:i]})
			last++
			clear(named)
		}
		named[one.outcome.ID] = true
		c := &commands[last]
		c.Outcomes, c.of = append(c.Outcomes, one.outcome), c.of[:len(c.of)+1]
	}
	return commands
}

func completions(commands []endingCommand) []job.Complete {
	list := make([]job.Complete, len(commands))
	for i := range commands {
		list[i] = commands[i].Complete
	}
	return list
}

// briefFailure truncates the text of a failure to the maximum length.
func briefFailure(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= job.MaxErrorBytes {
		return text
	}
	end := job.MaxErrorBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
