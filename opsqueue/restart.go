package opsqueue

import (
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
	// fillWait is how long a submission must not have grown before a node of a cluster takes it for left unfilled. A server
	// that fills one stores its next chunks in less, or gives up.
	fillWait = 30 * time.Second
)

// returnWait returns how long the consumers of a server that has ended may take to reconnect and report.
func (c *Config) returnWait() time.Duration { return max(c.HeartbeatInterval, returnAfter) }

// cleanUp cleans up after an earlier server. It cancels unfilled submissions immediately. It ends reservations after
// their consumers have had time to reconnect. That does not count as a failure, since the chunks did not cause the end of
// the server.
//
// In a cluster, other processes may be alive. So a submission is only cancelled if it does not grow, and the leader ends
// the reservations of processes that have ended; see Returns.
func (s *Server) cleanUp() {
	start := s.engine.Now() // before CatchUp, during which producers may already create submissions
	s.untilDone(0, "what an earlier server left is not known yet; trying again", func() error { return s.engine.CatchUp(s.running, 0) })
	const unfilled = "submissions that an earlier server could not fill cannot be cancelled; trying again"
	if s.config.Origin != 0 {
		chunks := map[job.ID]int64{}
		s.untilDone(0, unfilled, func() error {
			return s.eachUnfilled(start, func(doc *document.Batch) error { chunks[doc.ID] = doc.Lines; return nil })
		})
		s.untilDone(s.config.FillWait, unfilled, func() error {
			if err := s.engine.CatchUp(s.running, 0); err != nil { // this node may have been cut off meanwhile
				return err
			}
			return s.eachUnfilled(start, func(doc *document.Batch) error {
				if doc.Lines != chunks[doc.ID] {
					return nil
				}
				return s.cancelIncomplete(doc.ID)
			})
		})
		return
	}
	var cancelling sync.WaitGroup
	cancelling.Go(func() {
		s.untilDone(0, unfilled, func() error {
			return s.eachUnfilled(start, func(doc *document.Batch) error { return s.cancelIncomplete(doc.ID) })
		})
	})
	s.untilDone(s.config.returnWait(), "chunks that consumers of an earlier server hold cannot be returned; trying again", func() error { return s.returnStale(start) })
	cancelling.Wait()
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
	h := holders{s.engine, s.state, s.log, func(instance string) bool { return instance != s.instance }, before}
	_, err := h.returnAll(s.running)
	return err
}
