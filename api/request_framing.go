package api

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
)

// framing reads along with net/http where the heads and bodies of a connection's requests begin and end, and checks
// each head by RFC 9112, section 6. net/http removes the evidence: of a request with both Content-Length and
// Transfer-Encoding a handler sees the latter only, and of one of HTTP/1.0 with Transfer-Encoding nothing. A proxy in
// front that relies on the other header takes the rest of the body for the next request, so that somebody else's
// request can be put into it.
//
// It is stricter than net/http, and gives up at the first head that it refuses: the connection is closed after that. So
// both always agree on where the requests that are served begin. Two equal Content-Length headers pass, as RFC 9112
// allows. What cannot be known: whether a proxy in front has removed one of two headers before.
type framing struct {
	// Only the goroutine that reads the connection uses these.
	state frameState
	line  []byte // the beginning of the current line, at most maxFrameLine bytes
	size  int    // of the current line
	left  uint64 // bytes of a body or chunk
	head  head

	mu       sync.Mutex
	verdicts []string // of the heads that are read and not served: what is wrong, or ""
}

type frameState byte

const (
	inHead    frameState = iota // before and in the lines of a head
	inLength                    // in a body of known length
	inSize                      // in the line with the size of a chunk
	inChunk                     // in a chunk
	atEnd                       // at the line end after a chunk
	inTrailer                   // in the lines after the last chunk
	lost                        // after a refused head
)

// maxFrameLine is how much of a line is kept: more than the headers that matter here have, and than the size of a
// chunk.
const maxFrameLine = 64

// head is what matters of the current head.
type head struct {
	begun    bool // the request line has been read
	chunked  bool
	length   string // of Content-Length
	declared bool   // there is a Content-Length
	wrong    string
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

// endLine takes a line of size bytes, of which it may have the beginning only.
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
		h.begun = size > 0 // net/http ignores line ends before a request
		return
	case size == 0:
		f.endHead()
		return
	case line[0] == ' ' || line[0] == '\t':
		h.wrong = "a header continues in a second line"
		return
	case bytes.IndexByte(line, '\r') >= 0:
		h.wrong = "a header holds a carriage return"
		return
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	text := strings.Trim(string(value), " \t")
	switch {
	case isHeader(name, "content-length"):
		if h.declared && h.length != text {
			h.wrong = "there are two values of Content-Length"
		}
		h.declared, h.length = true, text
	case isHeader(name, "transfer-encoding"):
		if h.chunked || !strings.EqualFold(text, "chunked") {
			h.wrong = "Transfer-Encoding is not chunked alone"
		}
		h.chunked = true
	default:
		return
	}
	if size > len(line) {
		h.wrong = "the header of a length is too long"
	}
}

// isHeader compares a header's name; most differ in length or in the first letter.
func isHeader(name []byte, lower string) bool {
	return len(name) == len(lower) && name[0]|0x20 == lower[0] && strings.EqualFold(string(name), lower)
}

// endHead checks a head and begins its body.
func (f *framing) endHead() {
	h := f.head
	f.head = head{}
	length := uint64(0)
	if h.declared {
		n, err := strconv.ParseUint(h.length, 10, 63)
		if err != nil && h.wrong == "" {
			h.wrong = "Content-Length is not a number"
		}
		length = n
	}
	if h.declared && h.chunked {
		h.wrong = "there are both Content-Length and Transfer-Encoding"
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

// next returns what is wrong with the head of the next request that is served, or "".
func (f *framing) next() (wrong string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.verdicts) == 0 { // a head that follows bytes that this reader did not understand
		return "its beginning is in doubt"
	}
	wrong = f.verdicts[0]
	f.verdicts = f.verdicts[:copy(f.verdicts, f.verdicts[1:])]
	return wrong
}
