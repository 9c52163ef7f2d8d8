package job

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Kind says how to show the stored bytes of a payload.
type Kind uint8

// A payload is a text (a JSON string), a JSON value kept as sent, bytes (base64), the pair binary_addr and input_addr for
// a WASI runner, or nothing, if the work is described elsewhere.
const (
	Nothing Kind = iota
	Text
	JSON
	Bytes
	WASI
)

var kindNames = [...]string{"nothing", "text", "json", "bytes", "wasi"}

func (k Kind) String() string { return kindNames[k] }

// ParseKind parses the name of a kind, which is the value of a field.
func ParseKind(field, name string) (Kind, error) { return parseName[Kind](field, name, kindNames[:]) }

// ParseFrame parses the name of a frame, which is the value of a field.
func ParseFrame(field, name string) (Frame, error) {
	return parseName[Frame](field, name, frameNames[:])
}

func parseName[T ~uint8](field, text string, names []string) (T, error) {
	for i, name := range names {
		if name == text && name != "" {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("field %s=%s is not one of %s", field, text, strings.Join(names, ", "))
}

// AppendWASI appends the stored form of a WASI payload: binary_addr, then a space and input_addr if it is given. Both are
// escaped as in a record's header, so the form never contains a newline.
func AppendWASI(b []byte, binaryAddr, inputAddr string) []byte {
	b = AppendEscaped(b, binaryAddr)
	if inputAddr != "" {
		b = append(b, ' ')
		b = AppendEscaped(b, inputAddr)
	}
	return b
}

// ParseWASI is the inverse of AppendWASI.
func ParseWASI(payload []byte) (binaryAddr, inputAddr string, err error) {
	first, second, two := strings.Cut(string(payload), " ")
	if binaryAddr, err = Unescape(first); err == nil && two {
		inputAddr, err = Unescape(second)
	}
	if err == nil && (binaryAddr == "" || two && inputAddr == "") {
		err = fmt.Errorf("payload %q is not the addresses of a binary and an input", payload)
	}
	return binaryAddr, inputAddr, err
}

// Frame says how the payloads of a body are separated.
type Frame uint8

// NoFrame is n lines without payloads. LineFrame ends each payload with a newline, so payloads cannot contain one.
// LenFrame writes the decimal length and a newline before each payload, and a newline after it.
const (
	NoFrame Frame = iota
	LineFrame
	LenFrame
)

var frameNames = [...]string{"none", "line", "len"}

func (f Frame) String() string { return frameNames[f] }

// Append appends one framed payload to body.
func (f Frame) Append(body, payload []byte) []byte {
	switch f {
	case LineFrame:
		body = append(body, payload...)
	case LenFrame:
		body = strconv.AppendInt(body, int64(len(payload)), 10)
		body = append(body, '\n')
		body = append(body, payload...)
	default:
		return body
	}
	return append(body, '\n')
}

// Size returns the length of a framed payload of n bytes.
func (f Frame) Size(n int) int {
	switch f {
	case LineFrame:
		return n + 1
	case LenFrame:
		return len(strconv.Itoa(n)) + n + 2
	}
	return 0
}

// Next cuts the first payload from a framed body. Both results share memory with body.
func (f Frame) Next(body []byte) (payload, rest []byte, err error) {
	end := 0
	switch f {
	case NoFrame:
		return nil, body, nil
	case LineFrame:
		end = bytes.IndexByte(body, '\n')
	case LenFrame:
		at := bytes.IndexByte(body, '\n')
		if at < 1 || at > 8 || body[0] == '0' && at > 1 {
			return nil, nil, fmt.Errorf("payload length is missing")
		}
		n, err := strconv.ParseUint(string(body[:at]), 10, 32)
		if err != nil || n > MaxPayloadBytes {
			return nil, nil, fmt.Errorf("payload length %q is not one", body[:at])
		}
		body = body[at+1:]
		end = int(n)
	}
	if end < 0 || end >= len(body) || body[end] != '\n' {
		return nil, nil, fmt.Errorf("payload does not end in a newline")
	}
	return body[:end], body[end+1:], nil
}

// Skip returns the part of a framed body after the first n payloads.
func (f Frame) Skip(body []byte, n int) (rest []byte, err error) {
	for ; n > 0 && err == nil; n-- {
		_, body, err = f.Next(body)
	}
	return body, err
}

// TrimLines converts a request body of newline-terminated payloads to LineFrame. It splits lines at \n only, drops empty
// lines, and adds a missing last newline. It returns the body, the number of lines and the length of the longest. It
// works in place where possible, and only reads a body without empty lines, which is the usual case.
func TrimLines(body []byte) (lines []byte, n, longest int) {
	if len(body) > 0 && body[len(body)-1] != '\n' {
		body = append(body, '\n')
	}
	for at := 0; at < len(body); {
		length := bytes.IndexByte(body[at:], '\n')
		if length == 0 {
			return dropEmptyLines(body)
		}
		n++
		longest = max(longest, length)
		at += length + 1
	}
	return body, n, longest
}

func dropEmptyLines(body []byte) (lines []byte, n, longest int) {
	kept := 0
	for at := 0; at < len(body); {
		length := bytes.IndexByte(body[at:], '\n')
		if length > 0 {
			copy(body[kept:], body[at:at+length+1])
			kept += length + 1
			n++
			longest = max(longest, length)
		}
		at += length + 1
	}
	return body[:kept], n, longest
}
