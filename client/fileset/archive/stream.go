package archive

import (
	"bytes"
	"fmt"
	"io"
)

const (
	// blockBytes is the size of the blocks of a tar archive.
	blockBytes = 512
	// maxOverheadBytes bounds everything except the content of files: headers, PAX records, and the end. The longest
	// names and many records for each file of the largest fileset need less. Without a bound, a small compressed stream
	// could contain headers without end.
	maxOverheadBytes = 512 << 20
)

// stream is the archive. It counts the bytes that are read, and bounds those between files.
type stream struct {
	r        io.Reader
	at       int64 // bytes read
	overhead int64 // bytes read that are not the content of files
	zeros    int64 // zeros read last, outside of files
	inFile   bool  // the content of a file is being read
	err      error // of r, other than io.EOF
}

func (s *stream) Read(p []byte) (int, error) {
	if !s.inFile && s.overhead > maxOverheadBytes {
		s.err = fmt.Errorf("%w: its headers have more than %d bytes", ErrArchive, int64(maxOverheadBytes))
		return 0, s.err
	}
	n, err := s.r.Read(p)
	s.at += int64(n)
	if !s.inFile {
		s.overhead += int64(n)
		if rest := len(bytes.TrimRight(p[:n], "\x00")); rest > 0 {
			s.zeros = int64(n - rest)
		} else {
			s.zeros += int64(n)
		}
	}
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// begin and finish surround the reading of a file's content. The content ends within a block, which is padded with zeros.
func (s *stream) begin() { s.inFile = true }

func (s *stream) finish() {
	s.inFile = false
	s.zeros = -((blockBytes - s.at%blockBytes) % blockBytes)
}

// end reads the rest of the stream. It fails unless archive/tar has read two blocks of zeros, which it does not require,
// and only zeros follow.
func (s *stream) end() error {
	if s.zeros < 2*blockBytes {
		return fmt.Errorf("%w: it ends without the two blocks of zeros that mark the end; it was probably cut off", ErrArchive)
	}
	var buf [8 << 10]byte
	for {
		n, err := s.Read(buf[:])
		for _, c := range buf[:n] {
			if c != 0 {
				return fmt.Errorf("%w: data follows after its end; send archives one by one", ErrArchive)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
