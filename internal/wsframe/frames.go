package wsframe

import (
	"encoding/binary"
	"fmt"

	"github.com/coder/websocket"
)

// Error is the reason why the server closes a connection: the client's frame breaks the rules, or its message is too
// long.
type Error struct {
	Status websocket.StatusCode
	Reason string // at most 123 bytes, the maximum in a close frame
}

func (e *Error) Error() string { return e.Reason }

func broken(reason string) *Error { return &Error{websocket.StatusProtocolError, reason} }

const (
	// Bits of the first and of the second byte of a header.
	final, reserved, opcode = 0x80, 0x70, 0x0f
	masked                  = 0x80

	// Opcodes.
	continuation, text, binaryData = 0, 1, 2
	firstControl, lastControl      = 8, 10

	maxControlBytes = 125
	maskBytes       = 4
)

// frames tracks the frames of a client.
type frames struct {
	most    uint64 // bytes of a message
	message uint64 // announced bytes of the current message
	begun   bool   // the last frame of the current message has not arrived
	seen    int    // bytes of the header; 0 in the payload
	header  [2 + 8]byte
	length  uint64 // of the payload
	left    uint64 // remaining bytes of the payload
}

// pass tracks received bytes, and returns how many of them may be read: all, or those before the first byte by which a
// frame breaks the rules.
func (f *frames) pass(p []byte) (int, *Error) {
	for at := 0; at < len(p); {
		if f.left > 0 {
			skip := min(f.left, uint64(len(p)-at))
			f.left -= skip
			at += int(skip)
			continue
		}
		if err := f.look(p[at]); err != nil {
			return at, err
		}
		at++
	}
	return len(p), nil
}

// look tracks one byte of a header. It returns an error at the first byte that shows a mistake, because the client may
// wait for an answer.
func (f *frames) look(b byte) *Error {
	if f.seen < len(f.header) {
		f.header[f.seen] = b // or a byte of the mask, which is not needed
	}
	f.seen++
	if f.seen == 1 {
		return f.checkFirst(b)
	}
	end := 2 // of the length
	switch f.header[1] &^ masked {
	case 126:
		end = 4
	case 127:
		end = 10
	}
	switch f.seen {
	case 2:
		if b&masked == 0 {
			return broken("a frame of a client must have a mask")
		}
		f.length = uint64(b &^ masked)
	case end:
		f.length = binary.BigEndian.Uint64(append(make([]byte, 10-end, 8), f.header[2:end]...))
	case end + maskBytes:
		f.seen, f.left = 0, f.length
	}
	if f.seen == end {
		return f.checkLength()
	}
	return nil
}

// checkFirst checks the first byte of a header.
func (f *frames) checkFirst(b byte) *Error {
	last := b&final != 0
	switch code := b & opcode; {
	case b&reserved != 0:
		return broken("a reserved bit of a frame is set")
	case code >= firstControl && code <= lastControl:
		if !last {
			return broken("a control frame has fragments")
		}
		return nil
	case code == continuation && !f.begun:
		return broken("a continuation frame has no message")
	case (code == text || code == binaryData) && f.begun:
		return broken("a message begins within another")
	case code > binaryData:
		return broken(fmt.Sprintf("a frame has the unknown opcode %d", code))
	case !f.begun:
		f.message = 0
	}
	f.begun = !last
	return nil
}

// checkLength checks the length of a frame.
func (f *frames) checkLength() *Error {
	switch {
	case f.header[0]&opcode >= firstControl:
		if f.length > maxControlBytes {
			return broken(fmt.Sprintf("a control frame is longer than %d bytes", maxControlBytes))
		}
	case f.length > f.most-f.message:
		return &Error{websocket.StatusMessageTooBig, fmt.Sprintf("a message is longer than %d bytes", f.most)}
	default:
		f.message += f.length
	}
	return nil
}
