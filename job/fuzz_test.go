package job

import (
	"bytes"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
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
		testkit.MustEqual(t, n, len(want), string(body), "has", "lines, not")
		most := 0
		for i, line := range want {
			payload, rest, err := LineFrame.Next(lines)
			testkit.MustHold(t, err == nil && bytes.Equal(payload, line), "line", i, "of", string(body), "is", string(payload), err)
			lines, most = rest, max(most, len(line))
		}
		testkit.MustHold(t, len(lines) == 0 && longest == most, string(body), string(lines), "is left, longest", longest, "want", most)
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
		testkit.MustHold(t, bytes.Equal(again, body), string(body), "framed again is", string(again))
		rest := testkit.Must(frame.Skip(body, n))(t)
		testkit.MustHold(t, len(rest) == 0, "behind", n, "payloads of", string(body), "is", string(rest))
	})
}
