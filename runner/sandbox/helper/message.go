//go:build linux

package helper

import "syscall"

// Kinds of messages.
const (
	Running = 'R' // the program runs
	Refused = 'E' // the program could not be started: Errno and Text
	Ended   = 'S' // the program ended: Status and resource usage
)

// MessageBytes is the length of every message.
const MessageBytes = 1 + 4*8 + maxText

const maxText = 63

// Message is a report of the helper.
type Message struct {
	Kind byte

	Errno syscall.Errno // of Refused
	Text  string        // of Refused: the step that failed, at most 63 bytes

	Status         syscall.WaitStatus // of Ended
	UserMicros     uint64             // of Ended: processor time of the program and of the processes that it waited for
	SystemMicros   uint64
	MaxResidentKiB uint64 // the most memory that one of these processes had
}

// Encode returns the message as bytes.
func (m *Message) Encode() (b [MessageBytes]byte) {
	p := append(b[:0], m.Kind)
	if m.Kind == Refused {
		p = appendNumber(p, uint64(m.Errno))
	} else {
		p = appendNumber(p, uint64(m.Status))
	}
	for _, n := range []uint64{m.UserMicros, m.SystemMicros, m.MaxResidentKiB} {
		p = appendNumber(p, n)
	}
	copy(p[len(p):MessageBytes], m.Text)
	return b
}

// DecodeMessage is the inverse of Encode.
func DecodeMessage(b *[MessageBytes]byte) Message {
	d := decoder{b[1:], true}
	first := d.number()
	m := Message{Kind: b[0], UserMicros: d.number(), SystemMicros: d.number(), MaxResidentKiB: d.number()}
	if m.Kind == Refused {
		m.Errno = syscall.Errno(first)
	} else {
		m.Status = syscall.WaitStatus(first)
	}
	for i, c := range d.b {
		if c == 0 {
			d.b = d.b[:i]
			break
		}
	}
	m.Text = string(d.b)
	return m
}
