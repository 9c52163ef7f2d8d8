package files

// SetResumableFrom sets the length of the blobs that Put sends as resumable uploads.
func (s *Blobs) SetResumableFrom(n int64) { s.resumableFrom = n }
