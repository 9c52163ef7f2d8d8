package wire

import (
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"
)

// Like the original, the encoder uses only definite lengths and the shortest heads.

func appendHead(b []byte, major byte, arg uint64) []byte {
	first := major << 5
	switch {
	case arg < 24:
		return append(b, first|byte(arg))
	case arg < 1<<8:
		return append(b, first|24, byte(arg))
	case arg < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, first|25), uint16(arg))
	case arg < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, first|26), uint32(arg))
	}
	return binary.BigEndian.AppendUint64(append(b, first|27), arg)
}

func appendMapHead(b []byte, entries int) []byte { return appendHead(b, majorMap, uint64(entries)) }

func appendArrayHead(b []byte, elements int) []byte {
	return appendHead(b, majorArray, uint64(elements))
}

func appendUint(b []byte, n uint64) []byte { return appendHead(b, majorUint, n) }

func appendInt(b []byte, n int64) []byte {
	if n < 0 {
		return appendHead(b, majorNegative, uint64(-1-n))
	}
	return appendHead(b, majorUint, uint64(n))
}

// appendText appends a text. It replaces invalid UTF-8 by U+FFFD, because a client that receives invalid UTF-8 drops its
// connection.
func appendText(b []byte, text string) []byte {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return append(appendHead(b, majorText, uint64(len(text))), text...)
}

func appendNullable(b []byte, text *string) []byte {
	if text == nil {
		return append(b, nullByte)
	}
	return appendText(b, *text)
}

// appendVariant begins a variant with a payload, which the caller appends.
func appendVariant(b []byte, name string) []byte {
	return appendText(appendMapHead(b, 1), name)
}

// appendByteString appends a byte vector as a byte string. The original reads that, too, and it is half as long as the
// array on average.
func appendByteString(b, content []byte) []byte {
	if content == nil {
		return append(b, nullByte)
	}
	return append(appendHead(b, majorBytes, uint64(len(content))), content...)
}

// appendByteArray appends a byte vector as an array of numbers, as the original sends it.
func appendByteArray(b, content []byte) []byte {
	if content == nil {
		return append(b, nullByte)
	}
	b = appendArrayHead(b, len(content))
	for _, n := range content {
		if n >= 24 {
			b = append(b, 24)
		}
		b = append(b, n)
	}
	return b
}

func appendDuration(b []byte, d time.Duration) []byte {
	b = appendMapHead(b, 2)
	b = appendText(b, "secs")
	b = appendUint(b, uint64(d/time.Second))
	b = appendText(b, "nanos")
	return appendUint(b, uint64(d%time.Second))
}

func appendMetadata(b []byte, m Metadata) []byte {
	b = appendMapHead(b, len(m))
	for _, p := range m {
		b = appendText(b, p.Key)
		b = appendInt(b, p.Value)
	}
	return b
}
