package job

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

func TestFrames(t *testing.T) {
	for _, test := range []struct {
		frame    Frame
		payloads []string
		want     string
	}{
		{LineFrame, []string{"a", "\r", "#:end"}, "a\n\r\n#:end\n"},
		{LenFrame, []string{"a", "", "two\nlines", "\n"}, "1\na\n0\n\n9\ntwo\nlines\n1\n\n\n"},
		{NoFrame, []string{"", ""}, ""},
	} {
		var body []byte
		for _, p := range test.payloads {
			body = test.frame.Append(body, []byte(p))
		}
		testkit.Equal(t, string(body), test.want, test.frame)
		rest := body
		for i, p := range test.payloads {
			after, err := test.frame.Skip(body, i)
			testkit.Holds(t, err == nil && bytes.Equal(after, rest), test.frame, string(after), "after", i, "want", string(rest), err)
			var got []byte
			got, rest, err = test.frame.Next(rest)
			testkit.Holds(t, err == nil && string(got) == p, test.frame, "payload", i, "is", string(got), err)
		}
		testkit.Holds(t, len(rest) == 0, test.frame, string(rest), "is left")
		if test.frame != NoFrame {
			_, err := test.frame.Skip(body, len(test.payloads)+1)
			testkit.Holds(t, err != nil, test.frame, "one more payload than there are")
		}
	}
}

func TestFrameRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		frame Frame
		body  string
	}{
		"a line without an end":    {LineFrame, "abc"},
		"nothing":                  {LineFrame, ""},
		"no length":                {LenFrame, "\nabc\n"},
		"no newline at all":        {LenFrame, "3"},
		"a length with a zero":     {LenFrame, "03\nabc\n"},
		"a length with a sign":     {LenFrame, "+3\nabc\n"},
		"a length of letters":      {LenFrame, "x\nabc\n"},
		"a length of nine digits":  {LenFrame, "000000003\nabc\n"},
		"a payload cut off":        {LenFrame, "3\nab"},
		"a payload without an end": {LenFrame, "3\nabc"},
		"a payload too long":       {LenFrame, "2\nabc\n"},
		"one past the limit":       {LenFrame, "4194305\n" + strings.Repeat("x", MaxPayloadBytes+1) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			payload, _, err := test.frame.Next([]byte(test.body))
			testkit.Holds(t, err != nil, "payload of", len(payload), "bytes")
		})
	}
	payload, _ := testkit.Must2(LenFrame.Next([]byte("4194304\n" + strings.Repeat("x", MaxPayloadBytes) + "\n")))(t)
	testkit.Holds(t, len(payload) == MaxPayloadBytes, "the longest payload", len(payload), "bytes")
}

func TestTrimLines(t *testing.T) {
	for _, test := range []struct {
		body, want string
		n, longest int
	}{
		{"", "", 0, 0},
		{"\n", "", 0, 0},
		{"\n\n\n", "", 0, 0},
		{"a", "a\n", 1, 1},
		{"a\n", "a\n", 1, 1},
		{"a\nbcd\n", "a\nbcd\n", 2, 3},
		{"a\n\nbcd", "a\nbcd\n", 2, 3},
		{"\na\r\n \n#:end\n\n\x00\xff\n", "a\r\n \n#:end\n\x00\xff\n", 4, 5},
	} {
		got, n, longest := TrimLines([]byte(test.body))
		testkit.Holds(t, string(got) == test.want && n == test.n && longest == test.longest, test.body, string(got), n, "lines, longest",
			longest, "want", test.want, test.n, test.longest)
		c := Create{Groups: []Group{{Lines: n}}, Frame: LineFrame, Longest: longest, Payloads: got}
		testkit.NoError(t, c.CheckPayloads(), test.body)
	}
}

func TestWASI(t *testing.T) {
	for _, test := range []struct{ binary, input, want string }{
		{"sha256:1f", "", "sha256:1f"},
		{"sha256:1f", "s3://in put", "sha256:1f s3://in%20put"},
		{"a b\n", "%", "a%20b%0A %25"},
	} {
		stored := AppendWASI(nil, test.binary, test.input)
		testkit.Holds(t, string(stored) == test.want && !slices.Contains(stored, '\n'), string(stored), "want", test.want)
		binary, input := testkit.Must2(ParseWASI(stored))(t)
		testkit.Holds(t, binary == test.binary && input == test.input, string(stored), "is", binary, input)
	}
	for _, bad := range []string{"", " ", "a ", " b", "a b c", "%4", "a\n"} {
		binary, input, err := ParseWASI([]byte(bad))
		testkit.Holds(t, err != nil, bad, "is", binary, input)
	}
}

func TestCheckPayloads(t *testing.T) {
	good := Create{Groups: []Group{{Lines: 1}, {Lines: 2}}, Frame: LineFrame, Longest: 3, Payloads: []byte("a\nbcd\ne\n")}
	testkit.NoError(t, good.CheckPayloads())
	for name, change := range map[string]func(c *Create){
		"a payload too few":  func(c *Create) { c.Payloads = c.Payloads[:6] },
		"a payload too many": func(c *Create) { c.Payloads = append(slices.Clone(c.Payloads), "f\n"...) },
		"longest too small":  func(c *Create) { c.Longest = 2 },
		"longest too large":  func(c *Create) { c.Longest = 4 },
		"another frame":      func(c *Create) { c.Frame = LenFrame },
		"no frame":           func(c *Create) { c.Frame = NoFrame },
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			change(&c)
			testkit.Failed(t, c.CheckPayloads())
		})
	}
}

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
