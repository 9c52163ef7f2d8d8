package opsqueue

import (
	"strings"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

const (
	// returnAfter is how long consumers that held chunks before the start of the server have to come back, at least.
	returnAfter = 5 * time.Second
	// returnAgain is how long the server waits if it could not return all of them.
	returnAgain = time.Second
)

// cleanUp ends what an earlier server left: submissions that were not filled, at once; and, when their consumers had time to
// come back, reservations. The end of that server is not the fault of the chunks, so it does not count as a failure.
func (s *Server) cleanUp() {
	if s.engine.CatchUp(s.running, 0) != nil {
		return // the server stops
	}
	start := s.engine.Now()
	s.cancelUnfilled(start)
	for wait := max(s.config.HeartbeatInterval, returnAfter); ; wait = returnAgain {
		select {
		case <-time.After(wait):
		case <-s.running.Done():
			return
		}
		err := s.returnStale(start)
		if err == nil {
			return
		}
		s.log.Warn("chunks that consumers of an earlier server hold cannot be returned; trying again", "error", err)
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
