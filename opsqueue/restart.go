package opsqueue

import (
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

const (
	// returnAfter is how long consumers that held chunks before the start of the server have to come back, at least.
	returnAfter = 5 * time.Second
	// tryAgain is how long the server waits if it could not end all that an earlier server left.
	tryAgain = time.Second
)

// cleanUp ends what an earlier server left: submissions that were not filled, at once; and, when their consumers had time to
// come back, reservations. The end of that server is not the fault of the chunks, so it does not count as a failure.
func (s *Server) cleanUp() {
	start := s.engine.Now() // before CatchUp, during which producers may begin submissions
	s.untilDone(0, "what an earlier server left is not known yet; trying again", func() error { return s.engine.CatchUp(s.running, 0) })
	var unfilled sync.WaitGroup
	unfilled.Go(func() {
		s.untilDone(0, "submissions that an earlier server could not fill cannot be cancelled; trying again", func() error { return s.cancelUnfilled(start) })
	})
	s.untilDone(max(s.config.HeartbeatInterval, returnAfter), "chunks that consumers of an earlier server hold cannot be returned; trying again", func() error { return s.returnStale(start) })
	unfilled.Wait()
}

// untilDone calls f after a wait, and again every second until it succeeds or the server stops. An engine that has just
// started refuses commands for a moment.
func (s *Server) untilDone(wait time.Duration, failed string, f func() error) {
	for ; ; wait = tryAgain {
		select {
		case <-time.After(wait):
		case <-s.running.Done():
			return
		}
		err := f()
		if err == nil || s.running.Err() != nil {
			return
		}
		s.log.Warn(failed, "error", err)
	}
}

// returnStale returns the chunks that connections to an earlier server claimed before a time, and that were not completed
// since.
func (s *Server) returnStale(before int64) error {
	const page = 100
	for after, more := "", true; more; {
		var list []store.Runner
		var err error
		if list, more, err = s.state.Runners(after, page); err != nil {
			return err
		}
		for i := range list {
			after = list[i].Name
			if strings.HasPrefix(after, runnerPrefix) && !strings.HasPrefix(after, runnerPrefix+s.instance) {
				if err := s.returnClaims(after, before); err != nil {
					return err
				}
			}
		}
		more = more && len(list) > 0
	}
	return nil
}

// returnClaims returns what a runner has claimed before a time. It looks at the newest claims first, and at a bounded number
// at a time.
func (s *Server) returnClaims(runner string, before int64) error {
	for {
		doc, err := s.state.Runner(runner)
		if err != nil {
			return err
		}
		var commands []job.Complete
		for _, claim := range doc.Open {
			if claim.CreatedAt <= before {
				commands = append(commands, job.Complete{Claim: claim.ID, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
			}
		}
		if len(commands) == 0 {
			return nil
		}
		_, receipt, err := s.engine.CompleteInOrder(s.running, commands)
		if err == nil {
			err = s.engine.CatchUp(s.running, receipt.Seq)
		}
		if err != nil {
			return err
		}
		s.log.Info("chunks of a connection to an earlier server are available again", "runner_id", runner, "claims", len(commands))
	}
}
