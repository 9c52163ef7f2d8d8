package opsqueue

// RepliesFree reports whether no reply takes any of the memory for replies.
func (s *Server) RepliesFree() bool {
	free := s.replies.TryAcquire(maxReplyBytes)
	if free {
		s.replies.Release(maxReplyBytes)
	}
	return free
}

// ReturnStale returns the chunks that earlier servers claimed up to a time, without the wait for their consumers.
func (s *Server) ReturnStale(before int64) error { return s.returnStale(before) }
