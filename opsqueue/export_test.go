package opsqueue

import (
	"context"
	"time"
)

// RepliesFree reports whether all of the memory for replies is free.
func (s *Server) RepliesFree() bool {
	free := s.replies.TryAcquire(maxReplyBytes)
	if free {
		s.replies.Release(maxReplyBytes)
	}
	return free
}

// ReturnStale returns the chunks that earlier servers claimed up to a time. It does not wait for their consumers.
func (s *Server) ReturnStale(before int64) error { return s.returnStale(before) }

// Look returns what is to be returned at a time.
func (r *Returns) Look(ctx context.Context, now time.Time) error { return r.look(ctx, now) }
