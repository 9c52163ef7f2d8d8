package client

// CreateJoined sends a create in a stream, as creates that are joined are sent.
func (s *Stream) CreateJoined(c *Client, n NewJob) error {
	_, err := s.createAll(c, []*joinedCreate{n.joinable()})
	return err
}
