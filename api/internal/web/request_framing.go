package web

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
)

// framing protects against request smuggling: a proxy in front of the server that sees the end of a body elsewhere would
// treat the rest of the body as the next request, so an attacker could insert a request for another client of the proxy.
//
// net/http refuses most ambiguous heads and closes the connection. Go 1.26 does not do so in three cases of TestFraming,
// and continues with the next request on the same connection. framing refuses these:
//
//   - A request has both Content-Length and Transfer-Encoding. net/http ignores the first. RFC 9112, section 6.1,
//     allows that, but requires that the connection is closed.
//   - An HTTP/1.0 request has Transfer-Encoding. net/http ignores it, with or without Content-Length. RFC 9112 requires
//     that the server treats such requests as faulty and closes the connection.
//   - A header continues on a second line. net/http joins the lines, as RFC 9112, section 5.2, allows. Another program
//     may see a Content-Length in the second line.
//
// A handler cannot notice them, because net/http removes the headers and joins the lines. So framing reads the same
// bytes of a connection as net/http, and finds where the heads and bodies of requests begin and end. It stops at the
// first head that it refuses or does not understand, and the server closes the connection. So framing and net/http
// always agree where the served requests begin. framing cannot notice that a proxy removed one of two headers.
type framing struct {
	// Only the goroutine that reads the connection uses these.
	state frameState
	line  []byte // the beginning of the current line, at most maxFrameLine bytes
	size  int    // the number of bytes of the current line
	left  uint64 // bytes of the body or chunk that follow
	head  head

	mu       sync.Mutex
	verdicts []string // for each head that was read and not served yet: its mistake, or ""
}

type frameState byte

const (
	inHead    frameState = iota // before a head, or in its lines
	inLength                    // in a body of known length
	inSize                      // in the line with the size of a chunk
	inChunk                     // in a chunk
	atEnd                       // in the line break after a chunk
	inTrailer                   // in the lines after the last chunk
	lost                        // after a head that was refused, or a malformed chunk
)

// maxFrameLine is the number of bytes of a line that are kept. The headers that matter here, and the sizes of chunks,
// are shorter.
const maxFrameLine = 64

// head is the state of the current head.
type head struct {
	begun    bool // the request line has been read
	chunked  bool
	length   string // the value of Content-Length; net/http refuses two different ones
	declared bool   // the head has a Content-Length
	wrong    string // the mistake in the head, or ""
}

// feed takes the next bytes of the connection.
func (f *framing) feed(p []byte) {
	for len(p) > 0 {
		switch f.state {
		case lost:
			return
		case inLength, inChunk:
			n := min(uint64(len(p)), f.left)
			f.left -= n
			p = p[n:]
			if f.left == 0 {
				if f.state == inLength {
					f.state = inHead
				} else {
					f.state = atEnd
				}
			}
			continue
		}
		part, rest, whole := bytes.Cut(p, []byte{'\n'})
		f.line = append(f.line, part[:min(len(part), maxFrameLine-len(f.line))]...)
		f.size += len(part)
		p = rest
		if whole {
			f.endLine(f.line, f.size)
			f.line, f.size = f.line[:0], 0
		}
	}
}

// endLine processes a line of size bytes. If the line is long, line is only its beginning.
func (f *framing) endLine(line []byte, size int) {
	if size == len(line) {
		line = bytes.TrimSuffix(line, []byte{'\r'})
		size = len(line)
	}
	switch f.state {
	case inHead:
		f.endHeadLine(line, size)
	case inSize:
		digits, _, _ := bytes.Cut(line, []byte{';'})
		n, err := strconv.ParseUint(string(bytes.TrimRight(digits, " \t")), 16, 64)
		switch {
		case err != nil:
			f.state = lost
		case n == 0:
			f.state = inTrailer
		default:
			f.state, f.left = inChunk, n
		}
	case atEnd:
		if f.state = inSize; size > 0 {
			f.state = lost
		}
	case inTrailer:
		if size == 0 {
			f.state = inHead
		}
	}
}

func (f *framing) endHeadLine(line []byte, size int) {
	h := &f.head
	switch {
	case !h.begun:
		h.begun = size > 0 // like net/http, ignore empty lines before a request
		return
	case size == 0:
		f.endHead()
		return
	case line[0] == ' ' || line[0] == '\t':
		h.wrong = "a header continues on a second line"
		return
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	switch {
	case isHeader(name, "content-length"):
		h.declared, h.length = true, strings.Trim(string(value), " \t")
	case isHeader(name, "transfer-encoding"):
		h.chunked = true // net/http refuses other encodings, except in HTTP/1.0
	default:
		return
	}
	if size > len(line) {
		h.wrong = "its Content-Length or Transfer-Encoding header is too long"
	}
}

// isHeader reports whether name is the header. It first compares the length and the first letter, which differ for most
// headers.
func isHeader(name []byte, lower string) bool {
	return len(name) == len(lower) && name[0]|0x20 == lower[0] && strings.EqualFold(string(name), lower)
}

// endHead checks a head and begins its body.
func (f *framing) endHead() {
	h := f.head
	f.head = head{}
	length := uint64(0)
	if h.declared {
		length, _ = strconv.ParseUint(h.length, 10, 63) // net/http refuses other values
	}
	if h.declared && h.chunked {
		h.wrong = "it has both Content-Length and Transfer-Encoding"
	}
	switch {
	case h.wrong != "":
		f.state = lost
	case h.chunked:
		f.state = inSize
	case length > 0:
		f.state, f.left = inLength, length
	}
	f.mu.Lock()
	f.verdicts = append(f.verdicts, h.wrong)
	f.mu.Unlock()
}

// Next returns the mistake in the head of the next request, or "".
func (f *framing) Next() (wrong string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.verdicts) == 0 { // net/http read a head, but framing is lost
		return "its beginning is ambiguous, because the request before it was malformed"
	}
	wrong = f.verdicts[0]
	f.verdicts = f.verdicts[:copy(f.verdicts, f.verdicts[1:])]
	return wrong
}
