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
	"github.com/daybookq/daybook/store"
)

// endings carries out the ends of runs of all connections, in the order in which they arrived: reports of consumers, and the
// ends of reservations without a report. Nobody waits for a report, so it waits up to joinWait for others. Usually the same
// consumer then requests its next chunk, and both are written to disk together. The end of a reservation does not wait.
//
// A consumer believes that a chunk which it has completed is completed. So an ending that cannot be stored is tried
// again until it is, and connections are not read meanwhile.
type endings struct {
	s       *Server
	room    *semaphore.Weighted // for those that are not stored yet
	arrived chan struct{}       // capacity 1; has a value when list may not be empty
	urgent  chan struct{}       // capacity 1; has a value when list may have some that must not wait
	ctx     context.Context     // until they need not be carried out any more
	stop    context.CancelFunc

	proposing chan struct{} // has a value while somebody takes some and proposes them: the log keeps that order

	mu     sync.Mutex
	list   []ending
	closed bool
}

// end adds an ending. Those with long outputs are kept apart: while the disk is almost full, the engine refuses these and no
// others. So two reports about one chunk may change places if one of them is long. The next request of the same consumer
// waits for it.
func (s *Server) end(one ending) {
	if one.isLong() {
		s.longEndings.add(one)
	} else {
		s.endings.add(one)
	}
}

// ending is the end of one run. It is a report of a consumer about a chunk, whoever holds it; or it ends reservations, if
// the claim still holds the job, or all that the claim still holds.
type ending struct {
	chunk   wire.ChunkID  // of a report whose outcome names no job
	held    job.ID        // of a report: the claim that the connection had the job from; zero: none
	claim   job.ID        // of reservations that end
	outcome job.Outcome   // names no job if it is for all of the claim
	since   time.Time     // when the chunk was reserved; zero: not known
	arrived time.Time     // when the consumer reported it; zero: it did not
	stored  chan struct{} // closed when it is stored or dropped; nil: nobody waits
}

// finish says that an ending is stored or dropped.
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
	// roomBytes bounds the memory for endings that are not stored yet. Each counts endingBytes at least, so that there are
	// as many as in the original.
	roomBytes   = 64 << 20
	endingBytes = roomBytes / 1024
	// maxShortBytes bounds the outputs and errors that are stored together, unless an ending alone has more. The engine
	// stores more of them even when the disk is almost full.
	maxShortBytes = 32 << 10
	// joinWait is how long a report waits for others.
	joinWait = time.Millisecond
	// An ending that could not be stored is tried again after shortestRetry, and at last every longestRetry.
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

// add adds an ending. It waits while there are very many.
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

// close says that nothing is added any more. run returns when it has carried out what was added.
func (e *endings) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	signal(e.arrived)
	signal(e.urgent)
}

// until bounds how long run goes on.
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

// begin waits until nobody else proposes endings. It reports false if ctx ends before.
func (e *endings) begin(ctx context.Context) bool {
	select {
	case e.proposing <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *endings) end() { <-e.proposing }

// isClosed reports whether nothing is left and nothing will be added.
func (e *endings) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed && len(e.list) == 0
}

// take takes endings that can travel together. The caller proposes them before it calls end.
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

// carryOut stores endings, and tries again as long as they cannot be stored.
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

// note counts the results of the first commands. It returns those that must be tried again after an error.
func (e *endings) note(commands []endingCommand, ended []store.Ended, err error) (again []endingCommand) {
	for i := range ended {
		e.s.metrics.ended(commands[i].of, ended[i].Results)
		finishAll(commands[i].of)
	}
	commands = commands[len(ended):]
	if err == nil || len(commands) == 0 {
		return nil
	}
	if errors.Is(err, ingest.ErrMalformed) || errors.Is(err, ingest.ErrTooLarge) { // it will not get better
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

// claim claims chunks, together with the endings that have arrived. It waits until there are some or ctx ends.
func (e *endings) claim(ctx context.Context, cmd job.Claim, admit func(payloadBytes int64) error) (store.Claimed, []runs.Run, error) {
	x := e.exchange(ctx, cmd)
	if x == nil {
		claimed, handed, _, err := e.s.engine.ClaimUntil(ctx, cmd, ctx.Done(), admit)
		return claimed, handed, err
	}
	defer x.Close()
	claimed, handed, _, err := x.Claimed(ctx, math.MaxInt64, admit)
	return claimed, handed, err
}

// exchange proposes the endings that have arrived, and then a claim. It returns nil, and proposes no claim, if there were
// none, or if they could not be stored at once: they are by then.
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
	// Later ones may have been stored meanwhile. Two reports about one chunk may so change places when the journal fails.
	e.carryOut(again)
	return nil
}

// known looks up the jobs of chunks that the connections did not hold. Chunks that are unknown are left out, as in the
// original.
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

// lookUp returns the job of a chunk. An error says that there is none: if the store cannot be read, lookUp tries again. An
// insert is answered when it is in the log, so its chunks may be unknown until the state has caught up.
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

// jobOf returns the job of a chunk.
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

// commandsOf joins neighbours that one command can carry out. A command ends a job once at most.
//
// With again, it is unknown whether the endings were carried out before. A report of a chunk that the connection held then
// names the claim: the end of a run is not counted twice.
func commandsOf(list []ending, again bool) (commands []endingCommand) {
	named := map[job.ID]bool{} // by the last command
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

// briefFailure returns the beginning of a long text of a failure.
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
