package opsqueue

import (
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

const (
	// returnAfter is the minimum time that consumers of an earlier server have to reconnect.
	returnAfter = 5 * time.Second
	// tryAgain is how long the server waits before it repeats a failed clean-up.
	tryAgain = time.Second
)

// cleanUp cleans up after an earlier server. It cancels unfilled submissions immediately. It ends reservations after
// their consumers have had time to reconnect. That does not count as a failure, since the chunks did not cause the end of
// the server.
func (s *Server) cleanUp() {
	start := s.engine.Now() // before CatchUp, during which producers may already create submissions
	s.untilDone(0, "what an earlier server left is not known yet; trying again", func() error { return s.engine.CatchUp(s.running, 0) })
	var unfilled sync.WaitGroup
	unfilled.Go(func() {
		s.untilDone(0, "submissions that an earlier server could not fill cannot be cancelled; trying again", func() error { return s.cancelUnfilled(start) })
	})
	s.untilDone(max(s.config.HeartbeatInterval, returnAfter), "chunks that consumers of an earlier server hold cannot be returned; trying again", func() error { return s.returnStale(start) })
	unfilled.Wait()
}

// untilDone calls f after a wait, and repeats it every second until it succeeds or the server stops. An engine that has
// just started refuses commands for a moment.
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

// returnStale returns the uncompleted chunks that connections to earlier servers claimed up to the given time.
func (s *Server) returnStale(before int64) error {
	const page = 100
	for after, more := "", true; more; {
		var list []document.Runner
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

// returnClaims returns the chunks that a runner claimed up to the given time. It reads the newest claims first, a bounded
// number at a time.
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
