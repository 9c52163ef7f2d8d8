package wsframetest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

// Violation is a sequence of bytes after a handshake. At its end the server must close the connection.
type Violation struct {
	Name   string
	Bytes  string
	Status websocket.StatusCode
}

const (
	fin    = 0x80
	mask   = "\x00\x00\x00\x00" // changes nothing
	masked = 0x80
)

// header returns the header of a masked frame.
func header(first byte, length uint64) string {
	switch {
	case length < 126:
		return string([]byte{first, masked | byte(length)}) + mask
	case length < 1<<16:
		return string(binary.BigEndian.AppendUint16([]byte{first, masked | 126}, uint16(length))) + mask
	}
	return string(binary.BigEndian.AppendUint64([]byte{first, masked | 127}, length)) + mask
}

// Violations returns the mistakes, for a server whose messages have at most maxMessage bytes.
func Violations(maxMessage uint64) []Violation {
	const tooBig, mistake = websocket.StatusMessageTooBig, websocket.StatusProtocolError
	list := []Violation{
		{"a text without a mask", "\x81\x02{}", mistake},
		{"an empty message without a mask", "\x82\x00", mistake},
		{"a ping without a mask", "\x89\x00", mistake},
		{"a close frame without a mask", "\x88\x02\x03\xe8", mistake},
		{"a ping that has fragments", header(0x09, 0), mistake},
		{"a ping of 126 bytes", header(fin|9, 126), mistake},
		{"a ping of 2^63 bytes", header(fin|9, 1<<63), mistake},
		{"a close frame of 2^63 bytes", header(fin|8, 1<<63), mistake},
		{"a reserved bit", header(fin|0x40|1, 0), mistake},
		{"opcode 3", header(fin|3, 0), mistake},
		{"opcode 11", header(fin|11, 0), mistake},
		{"a continuation without a message", header(fin, 0), mistake},
		{"a message within another", header(2, 1) + " " + header(fin|2, 0), mistake},
		{"a message in fragments that is too long", header(2, 10) + strings.Repeat(" ", 10) + header(fin|9, 0) + header(0, maxMessage-9), tooBig},
	}
	for _, length := range []uint64{maxMessage + 1, 1 << 32, 1 << 62, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 1} {
		list = append(list, Violation{fmt.Sprintf("a message of %#x bytes", length), header(fin|2, length), tooBig})
		list = append(list, Violation{fmt.Sprintf("the length of a message of %#x bytes", length), strings.TrimSuffix(header(fin|1, length), mask), tooBig})
	}
	for _, v := range list[:len(list):len(list)] { // more than the server reads, so that closing immediately would send a reset
		list = append(list, Violation{v.Name + " and more", v.Bytes + strings.Repeat("\xff", 100_000), v.Status})
	}
	return list
}

// Closing sends a handshake request and then frames. It returns the status and the reason of the server's close frame. It
// returns an error unless the connection ends with a close frame followed by the end of the stream.
func Closing(address, request, frames string) (status websocket.StatusCode, reason string, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, "", err
	}
	in := bufio.NewReader(conn)
	if answer, err := http.ReadResponse(in, nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		return 0, "", fmt.Errorf("the handshake: %+v, %w", answer, err)
	}
	if _, err := io.WriteString(conn, frames); err != nil {
		return 0, "", fmt.Errorf("send: %w", err)
	}
	for {
		first, payload, err := frame(in)
		switch {
		case err != nil:
			return 0, "", fmt.Errorf("no close frame: %w", err)
		case first != fin|8:
			continue // the server's first messages
		case len(payload) < 2:
			return 0, "", fmt.Errorf("a close frame with %q", payload)
		}
		status, reason = websocket.StatusCode(binary.BigEndian.Uint16(payload)), string(payload[2:])
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			return status, reason, err
		}
		rest, err := io.ReadAll(in)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%q after the close frame", rest)
		}
		return status, reason, err
	}
}

// frame reads a server's frame that is shorter than 64 KiB.
func frame(in *bufio.Reader) (first byte, payload []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:2]); err != nil {
		return 0, nil, err
	}
	length := int(head[1])
	switch length {
	case 126:
		if _, err := io.ReadFull(in, head[2:]); err != nil {
			return 0, nil, err
		}
		length = int(binary.BigEndian.Uint16(head[2:]))
	case 127:
		return 0, nil, fmt.Errorf("a frame of 64 KiB or more")
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(in, payload)
	return head[0], payload, err
}
