package job

import (
	"bytes"
	"testing"
)

// FuzzLines checks that the lines of any body are its non-empty pieces between newlines, in order, byte for byte.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{"", "\n", "a", "a\n", "a\nb", "\n\na\n\n\nb\r\n#c\x00\n", "\n#:end crc=00000000\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var want [][]byte
		for _, line := range bytes.Split(body, []byte("\n")) {
			if len(line) > 0 {
				want = append(want, bytes.Clone(line))
			}
		}
		lines, n, longest := TrimLines(bytes.Clone(body))
		if n != len(want) {
			t.Fatalf("%q has %d lines, not %d", body, n, len(want))
		}
		most := 0
		for i, line := range want {
			payload, rest, err := LineFrame.Next(lines)
			if err != nil || !bytes.Equal(payload, line) {
				t.Fatalf("line %d of %q is %q, %v", i, body, payload, err)
			}
			lines, most = rest, max(most, len(line))
		}
		if len(lines) > 0 || longest != most {
			t.Fatalf("%q: %q is left, longest %d, want %d", body, lines, longest, most)
		}
	})
}

// FuzzFrames checks that a frame either refuses a body or splits it into payloads that, framed again, are the same body.
func FuzzFrames(f *testing.F) {
	f.Add(true, []byte("3\na\nb\n0\n\n"))
	f.Add(true, []byte("03\nabc\n"))
	f.Add(true, []byte("4294967295\nx\n"))
	f.Add(false, []byte("a\n\nb\n"))
	f.Fuzz(func(t *testing.T, byLength bool, body []byte) {
		frame := LineFrame
		if byLength {
			frame = LenFrame
		}
		var again []byte
		n := 0
		for rest := body; len(rest) > 0; n++ {
			payload, left, err := frame.Next(rest)
			if err != nil {
				return
			}
			again, rest = frame.Append(again, payload), left
		}
		if !bytes.Equal(again, body) {
			t.Fatalf("%q framed again is %q", body, again)
		}
		if rest, err := frame.Skip(body, n); err != nil || len(rest) > 0 {
			t.Fatalf("behind %d payloads of %q is %q, %v", n, body, rest, err)
		}
	})
}
