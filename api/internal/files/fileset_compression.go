package files

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/daybookq/daybook/client/fileset/archive"
)

const (
	MIMETar     = "application/x-tar"
	MIMETarGzip = "application/x-tar+gzip"
	MIMETarZstd = "application/x-tar+zstd"

	// maxZstdWindow bounds the memory of a decompressor. It suffices for the levels of zstd up to 19, without --long.
	maxZstdWindow = 8 << 20
	// unpackBytes is the memory for a decompressor, and packBytes for a compressor.
	unpackBytes = 2*maxZstdWindow + 1<<20
	packBytes   = 4 << 20
	// sendWindow is the window of the zstd compressor. A larger window would take more memory.
	sendWindow = 1 << 20
)

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// isZstd reports whether a stream begins with a zstd frame or with a skippable frame.
func isZstd(b []byte) bool {
	return bytes.HasPrefix(b, zstdMagic) || len(b) >= 4 && b[0]&0xf0 == 0x50 && bytes.Equal(b[1:4], []byte{0x2a, 0x4d, 0x18})
}

// unpacked returns the archive in a stream, which may be compressed with gzip or zstd, and a function that frees the
// decompressor. It ignores the media type, because tools like curl do not send one.
func unpacked(r io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(r, 64<<10)
	begin, err := b.Peek(4)
	if len(begin) == 0 {
		if err == io.EOF {
			err = fmt.Errorf("%w: the body is empty", archive.ErrArchive)
		}
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(begin, gzipMagic):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, badCompression(err)
		}
		return &unpacker{z}, func() {}, nil
	case isZstd(begin):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nil, badCompression(err)
		}
		return &unpacker{z}, z.Close, nil
	}
	return b, func() {}, nil
}

// unpacker turns the errors of a decompressor into errors of an archive. An error of reading the body takes precedence:
// see StreamedBody.refused.
type unpacker struct{ r io.Reader }

func (u *unpacker) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if err != nil && err != io.EOF {
		err = badCompression(err)
	}
	return n, err
}

func badCompression(err error) error {
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return fmt.Errorf("%w: its zstd window is larger than %d bytes; compress it without --long and --ultra", archive.ErrArchive, maxZstdWindow)
	}
	return fmt.Errorf("%w: its compression is damaged: %w", archive.ErrArchive, err)
}

// packer returns a writer that compresses for a media type. The caller closes it at the end of a complete archive.
func packer(kind string, w io.Writer) (io.WriteCloser, error) {
	switch kind {
	case MIMETarGzip:
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	case MIMETarZstd:
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(sendWindow))
	}
	return plain{w}, nil
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }
