//go:build linux

package helper

import "syscall"

// Variable is the environment variable that makes a process the helper. Its value is ignored.
const Variable = "DAYBOOK_SANDBOX_HELPER"

// Channel is the helper's descriptor of the socket that it shares with the runner. The runner sends the settings, and
// then requests of one byte each. The helper answers with messages. The end of the socket means that the runner is gone
// or that the helper must end everything.
const Channel = 3

// Terminate is the request to send SIGTERM to the program and its process group.
const Terminate = 'T'

// readFull fills b from the channel, and reports whether it succeeded.
func readFull(b []byte) bool {
	for len(b) > 0 {
		n, err := syscall.Read(Channel, b)
		switch {
		case err == syscall.EINTR:
		case err != nil || n <= 0:
			return false
		default:
			b = b[n:]
		}
	}
	return true
}

// readSettings reads the settings from the channel.
func readSettings(s *Settings) bool {
	var length [8]byte
	if !readFull(length[:]) {
		return false
	}
	d := decoder{length[:], true}
	n := d.number()
	if n > maxSettings {
		return false
	}
	b := make([]byte, n)
	return readFull(b) && s.Decode(b)
}

// send sends a message. It ignores errors, which mean that nobody reads the channel any more.
func send(m Message) {
	encoded := m.Encode()
	for b := encoded[:]; len(b) > 0; {
		n, err := syscall.Write(Channel, b)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		default:
			b = b[n:]
		}
	}
}

// refuse reports that the program cannot be started, and ends the helper.
func refuse(text string, err error) {
	errno, _ := err.(syscall.Errno)
	send(Message{Kind: Refused, Errno: errno, Text: text})
	syscall.Exit(1)
}
