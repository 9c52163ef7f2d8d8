package client

// CreateJoined sends a create in a stream, as joined creates are sent.
func (s *Stream) CreateJoined(c *Client, n NewJob) error {
	_, err := s.createAll(c, []*joinedCreate{n.joinable()})
	return err
}

// ResumableFrom sets the length of the blobs that PutBlob sends as resumable uploads.
func (c *Client) ResumableFrom(n int64) { c.resumableFrom = n }
