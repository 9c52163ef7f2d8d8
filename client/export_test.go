package client

// CreateJoined sends a create in a stream, as joined creates are sent.
func (s *Stream) CreateJoined(c *Client, n NewJob) error {
	_, err := s.createAll(c, []*joinedCreate{n.joinable()})
	return err
}
