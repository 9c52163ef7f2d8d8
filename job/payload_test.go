package job

import (
	"bytes"
	"slices"
	"strings"
	"testing"
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
		if string(body) != test.want {
			t.Errorf("%v: %q, want %q", test.frame, body, test.want)
		}
		rest := body
		for i, p := range test.payloads {
			after, err := test.frame.Skip(body, i)
			if err != nil || !bytes.Equal(after, rest) {
				t.Errorf("%v: %q after %d, want %q, %v", test.frame, after, i, rest, err)
			}
			var got []byte
			if got, rest, err = test.frame.Next(rest); err != nil || string(got) != p {
				t.Errorf("%v: payload %d is %q, %v", test.frame, i, got, err)
			}
		}
		if len(rest) > 0 {
			t.Errorf("%v: %q is left", test.frame, rest)
		}
		if test.frame != NoFrame {
			if _, err := test.frame.Skip(body, len(test.payloads)+1); err == nil {
				t.Errorf("%v: one more payload than there are", test.frame)
			}
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
			if payload, _, err := test.frame.Next([]byte(test.body)); err == nil {
				t.Errorf("payload of %d bytes", len(payload))
			}
		})
	}
	if payload, _, err := LenFrame.Next([]byte("4194304\n" + strings.Repeat("x", MaxPayloadBytes) + "\n")); err != nil || len(payload) != MaxPayloadBytes {
		t.Errorf("the longest payload: %d bytes, %v", len(payload), err)
	}
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
		if string(got) != test.want || n != test.n || longest != test.longest {
			t.Errorf("%q: %q, %d lines, longest %d; want %q, %d, %d", test.body, got, n, longest, test.want, test.n, test.longest)
		}
		c := Create{Groups: []Group{{Lines: n}}, Frame: LineFrame, Longest: longest, Payloads: got}
		if err := c.CheckPayloads(); err != nil {
			t.Errorf("%q: %v", test.body, err)
		}
	}
}

func TestWASI(t *testing.T) {
	for _, test := range []struct{ binary, input, want string }{
		{"sha256:1f", "", "sha256:1f"},
		{"sha256:1f", "s3://in put", "sha256:1f s3://in%20put"},
		{"a b\n", "%", "a%20b%0A %25"},
	} {
		stored := AppendWASI(nil, test.binary, test.input)
		if string(stored) != test.want || slices.Contains(stored, '\n') {
			t.Errorf("%q, want %q", stored, test.want)
		}
		if binary, input, err := ParseWASI(stored); err != nil || binary != test.binary || input != test.input {
			t.Errorf("%q is %q, %q, %v", stored, binary, input, err)
		}
	}
	for _, bad := range []string{"", " ", "a ", " b", "a b c", "%4", "a\n"} {
		if binary, input, err := ParseWASI([]byte(bad)); err == nil {
			t.Errorf("%q is %q, %q", bad, binary, input)
		}
	}
}

func TestCheckPayloads(t *testing.T) {
	good := Create{Groups: []Group{{Lines: 1}, {Lines: 2}}, Frame: LineFrame, Longest: 3, Payloads: []byte("a\nbcd\ne\n")}
	if err := good.CheckPayloads(); err != nil {
		t.Error(err)
	}
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
			if err := c.CheckPayloads(); err == nil {
				t.Error("accepted")
			}
		})
	}
}
