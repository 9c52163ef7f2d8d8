package opsqueue

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// endings carries out the ends of runs of all connections, in the order in which they arrived. Nobody waits for them, so
// all that have arrived while the last ones were written to disk travel together.
//
// A consumer believes that a chunk which it has completed is completed. So an ending that cannot be stored is tried
// again until it is, and connections are not read meanwhile.
type endings struct {
	s     *Server
	queue chan ending
	ctx   context.Context
	stop  context.CancelCauseFunc
}

// ending is the end of one run. It is a report of a consumer about a chunk, whoever holds it; or it ends reservations, if
// the claim still holds the job, or all that the claim still holds.
type ending struct {
	chunk   wire.ChunkID // of a report whose outcome names no job
	claim   job.ID       // of reservations that end
	outcome job.Outcome  // names no job if it is for all of the claim
	since   time.Time    // when the chunk was reserved; zero: not known
	arrived time.Time    // when the consumer reported it; zero: it did not
}

const (
	maxEndings = 1024
	// maxJoinedBytes bounds the outputs and errors that travel together.
	maxJoinedBytes = 4 << 20
	// An ending that could not be stored is tried again after shortestRetry, and at last every longestRetry.
	shortestRetry = 10 * time.Millisecond
	longestRetry  = time.Second
)

func newEndings(s *Server) *endings {
	e := &endings{s: s, queue: make(chan ending, maxEndings)}
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	return e
}

// add adds an ending. It waits while there are very many.
func (e *endings) add(one ending) {
	select {
	case e.queue <- one:
	case <-e.ctx.Done():
	}
}

var errEndingsClosed = errors.New("no more endings arrive")

// close says that nothing is added any more. run returns when it has carried out what was added.
func (e *endings) close() { close(e.queue) }

// until bounds how long run goes on.
func (e *endings) until(ctx context.Context) {
	context.AfterFunc(ctx, func() { e.stop(errEndingsClosed) })
}

// run carries out endings until close.
func (e *endings) run() {
	defer e.stop(errEndingsClosed)
	var list []ending
	var next *ending
	for {
		list = list[:0]
		if next != nil {
			list = append(list, *next)
		} else if one, ok := <-e.queue; ok {
			list = append(list, one)
		} else {
			return
		}
		list, next = e.more(list)
		e.carryOut(list)
	}
}

// more adds those that have arrived, too, and returns one that does not fit.
func (e *endings) more(list []ending) (_ []ending, next *ending) {
	bytes := list[0].bytes()
	for len(list) < job.MaxOutcomes {
		select {
		case one, ok := <-e.queue:
			if !ok {
				return list, nil // the next receive reports it
			}
			if bytes += one.bytes(); bytes > maxJoinedBytes {
				return list, &one
			}
			list = append(list, one)
		default:
			return list, nil
		}
	}
	return list, nil
}

func (e *ending) bytes() int { return len(e.outcome.Output) + len(e.outcome.Error) }

// carryOut stores endings, and tries again as long as they cannot be stored.
func (e *endings) carryOut(list []ending) {
	commands, wait := commandsOf(e.known(list)), shortestRetry
	for len(commands) > 0 {
		sent := make([]job.Complete, len(commands))
		for i := range commands {
			sent[i] = commands[i].Complete
		}
		ended, _, err := e.s.engine.CompleteInOrder(e.ctx, sent)
		for i := range ended {
			e.s.metrics.ended(commands[i].of, ended[i].Results)
		}
		commands = commands[len(ended):]
		switch {
		case err == nil || e.ctx.Err() != nil:
			return
		case errors.Is(err, ingest.ErrMalformed), errors.Is(err, ingest.ErrTooLarge): // it will not get better
			e.s.log.Error("the ends of chunks cannot be stored", "chunks", len(commands[0].of), "error", err)
			commands = commands[1:]
			continue
		}
		e.s.log.Warn("the ends of chunks cannot be stored now; trying again", "commands", len(commands), "error", err)
		select {
		case <-time.After(wait):
		case <-e.ctx.Done():
		}
		wait = min(2*wait, longestRetry)
	}
}

// known looks up the jobs of chunks that the connections did not hold. Chunks that are unknown are left out, as in the
// original.
func (e *endings) known(list []ending) []ending {
	kept := list[:0]
	for _, one := range list {
		if one.outcome.ID.IsZero() && one.claim.IsZero() {
			var err error
			if one.outcome.ID, err = e.s.jobOf(one.chunk); err != nil {
				e.s.log.Info("a consumer has reported the end of a chunk that is unknown", "submission_id", int64(one.chunk.SubmissionID), "chunk_index", one.chunk.Index, "error", err)
				continue
			}
		}
		kept = append(kept, one)
	}
	return kept
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
func commandsOf(list []ending) (commands []endingCommand) {
	named := map[job.ID]bool{} // by the last command
	for i := range list {
		one := &list[i]
		if one.outcome.ID.IsZero() {
			commands = append(commands, endingCommand{job.Complete{Claim: one.claim, All: &one.outcome}, list[i : i+1]})
			continue
		}
		last := len(commands) - 1
		if last < 0 || commands[last].Claim != one.claim || commands[last].All != nil || named[one.outcome.ID] {
			commands = append(commands, endingCommand{job.Complete{Claim: one.claim, Unclaimed: one.claim.IsZero()}, list[i:i]})
			last++
			clear(named)
		}
		named[one.outcome.ID] = true
		c := &commands[last]
		c.Outcomes, c.of = append(c.Outcomes, one.outcome), c.of[:len(c.of)+1]
	}
	return commands
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

// returnAfter is how long consumers that held chunks before the start of the server have to come back, at least.
const returnAfter = 5 * time.Second

// returnStale returns the chunks that connections to an earlier server held, and that were not completed since. The end
// of that server is not the fault of the chunks, so it does not count as a failure.
func (s *Server) returnStale() {
	select {
	case <-time.After(max(s.config.HeartbeatInterval, returnAfter)):
	case <-s.running.Done():
		return
	}
	const page = 100
	after := ""
	for s.running.Err() == nil {
		list, more, err := s.state.Runners(after, page)
		if err != nil {
			s.log.Warn("chunks that consumers of an earlier server hold cannot be returned; their leases end", "error", err)
			return
		}
		for i := range list {
			if after = list[i].Name; s.isStale(after) {
				s.returnClaims(after)
			}
		}
		if !more || len(list) == 0 {
			return
		}
	}
}

// isStale reports whether a runner is a connection to an earlier server.
func (s *Server) isStale(runner string) bool {
	return strings.HasPrefix(runner, runnerPrefix) && !strings.HasPrefix(runner, runnerPrefix+s.instance)
}

// returnClaims returns what a runner holds. A page of its claims has a bounded number.
func (s *Server) returnClaims(runner string) {
	for s.running.Err() == nil {
		doc, err := s.state.Runner(runner)
		if err != nil || len(doc.Open) == 0 {
			return
		}
		commands := make([]job.Complete, len(doc.Open))
		for i, claim := range doc.Open {
			commands[i] = job.Complete{Claim: claim.ID, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}
		}
		if _, receipt, err := s.engine.CompleteInOrder(s.running, commands); err != nil || s.engine.CatchUp(s.running, receipt.Seq) != nil {
			return
		}
		s.log.Info("chunks of a connection to an earlier server are available again", "runner_id", runner, "claims", len(doc.Open))
	}
}
