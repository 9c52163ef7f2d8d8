package answers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/runner/task"
)

func TestEnd(t *testing.T) {
	then := []client.NewJob{{Type: "a"}}
	outcome := func(code string, exit int, text string) task.End {
		return task.End{Outcome: client.Outcome{Code: code, ExitCode: exit, Error: text}}
	}
	withJobs := func(e task.End) task.End { e.Then = then; return e }
	ok := func(exit int, output string, kind client.Kind) task.End {
		e := withJobs(outcome("ok", exit, ""))
		if e.OutputKind = kind; kind != client.None {
			e.Output = []byte(output)
		}
		return e
	}
	for name, c := range map[string]struct {
		answer Answer
		want   task.End
	}{
		"ok":                       {Answer{ExitCode: 204}, ok(204, "", client.None)},
		"ok with text":             {Answer{ExitCode: 200, Text: "ünü"}, ok(200, "ünü", client.Text)},
		"ok with bytes":            {Answer{ExitCode: 299, Text: "a\xff"}, ok(299, "a\xff", client.Bytes)},
		"ok at the bound":          {Answer{ExitCode: 200, Text: strings.Repeat("a", 10)}, ok(200, strings.Repeat("a", 10), client.Text)},
		"ok above the bound":       {Answer{ExitCode: 200, Text: strings.Repeat("a", 11)}, outcome("failed", 0, "the answer 200 has an output of more than 10 bytes, which is what options.output_bytes allows")},
		"failed":                   {Answer{ExitCode: 404, Text: "nope, it is long"}, withJobs(outcome("failed", 404, "nope, it is long"))},
		"ok of a line cut off":     {Answer{ExitCode: 200, Text: "a", CutOff: true}, outcome("failed", 0, "the answer 200 has an output of more than 10 bytes, which is what options.output_bytes allows")},
		"error of a line cut off":  {Answer{ExitCode: 503, Text: "a", CutOff: true}, outcome("error", 503, "a")},
		"failed without text":      {Answer{ExitCode: 499}, withJobs(outcome("failed", 499, "exit code 499"))},
		"error":                    {Answer{ExitCode: 599, Text: "down"}, outcome("error", 599, "down")},
		"retry":                    {Answer{ExitCode: 100}, outcome("retry", 100, "exit code 100")},
		"no class":                 {Answer{ExitCode: 302, Text: "found"}, outcome("retry", 0, "exit code 302: found")},
		"no class, low":            {Answer{ExitCode: 99}, outcome("retry", 0, "exit code 99")},
		"no class, high":           {Answer{ExitCode: 600}, outcome("retry", 0, "exit code 600")},
		"no line":                  {Answer{ExitCode: 500, Code: NoResponse, Text: "why"}, outcome("error", 500, "NO_RESPONSE: why")},
		"an error that is no text": {Answer{ExitCode: 500, Text: "a\xff"}, outcome("error", 500, "a\uFFFD")},
	} {
		c.answer.Then = then
		testkit.DeepEqual(t, c.answer.End(10), c.want, name)
	}
	long := Answer{ExitCode: 500, Text: strings.Repeat("a", task.MaxErrorBytes+1)}
	testkit.Equal(t, len(long.End(10).Error), task.MaxErrorBytes, "an error of", "bytes")
}

// mostOutput is options.output_bytes in these tests. It is more than MaxLineBytes.
const mostOutput = 5 << 20

// all returns the answers of n jobs in a text.
func all(t testing.TB, n int, text string) []Answer {
	t.Helper()
	r := NewReader(n, ChainTypes{"*"}, mostOutput)
	var got []Answer
	testkit.NoError(t, r.Read(strings.NewReader(text), func(a Answer) { got = append(got, a) }))
	return append(got, r.Rest()...)
}

// short formats answers as lines: exit code, code, and the jobs to create.
func short(list []Answer) (lines []string) {
	for _, a := range list {
		line := fmt.Sprint(a.ExitCode)
		if a.Code != "" {
			line += " " + a.Code
		} else if a.Text != "" {
			line += " " + a.Text
		}
		for _, j := range a.Then {
			line += fmt.Sprintf(" (%s|%s)", j.Type, j.Payload)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestReader(t *testing.T) {
	const none, invalid = "500 NO_RESPONSE", "500 INVALID_RESPONSE"
	tooMany := strings.Repeat("J: a|b\n", MaxThen+1)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"one line a job":                  {"200\n404 nope\n503", []string{"200", "404 nope", "503"}},
		"line ends of Windows":            {"200 a\r\n\r\n404\r\n", []string{"200 a", "404"}},
		"white space around lines":        {"  200   a b  \n\t404\n \n", []string{"200 a b", "404"}},
		"no white space after the number": {"200abc\n200,x\n2.5\n+201 a\n007", []string{"200 abc", "200 ,x", "2 .5", "201 a", "7"}},
		"a large number":                  {"99999999999999999999999 a", []string{"2147483647 a"}},
		"nothing":                         {"", []string{none, none}},
		"comments only":                   {"# 200\n#\n#200", []string{none}},
		"a line is missing":               {"200\n200\n", []string{"200", "200", none, none}},
		"lines too many":                  {"200\n201\n202\n# 1", []string{"200", "201"}},
		"no number":                       {"200\nok\n200", []string{"200", invalid, invalid}},
		"a negative number":               {"-1\n200", []string{invalid, invalid}},
		"no number, then missing":         {"x\n200\n", []string{invalid, invalid, none}},
		"a job of the next answer":        {"J: a|1\n#J: b|2\n200\n200", []string{"200 (a|1) (b|2)", "200"}},
		"a job of the last answer":        {"200\n200\nJ: a|1\n#J:b|2", []string{"200", "200 (a|1) (b|2)"}},
		"jobs around the last answer":     {"J: a|1\n200\nJ: a|2\n200\nJ: a|3", []string{"200 (a|1)", "200 (a|2) (a|3)"}},
		"jobs after a line too many":      {"200\n201\nJ: a|1", []string{"200 (a|1)"}},
		"a payload with bars":             {"J:a.b|c|d J: e|f\n200", []string{"200 (a.b|c|d J: e|f)"}},
		"an empty payload":                {"J:  a  |\n200", []string{"200 (a|)"}},
		"jobs of a job without a line":    {"200\nJ: a|1", []string{"200", none}},
		"jobs of an invalid line":         {"J: a|1\nx\nJ: a|2\n200\nJ: a|3", []string{invalid, invalid}},
		"a J line without a bar":          {"J: a\n200\n201", []string{invalid, invalid}},
		"a comment that begins with #J:":  {"#J: a\n200", []string{"200"}},
		"a J line without a type":         {"#J: |a\n200\n201", []string{invalid, "201"}},
		"a J line with a bad type":        {"200\n201\nJ: a b|c", []string{"200", invalid}},
		"a J line with a long type":       {"J: " + strings.Repeat("a", 129) + "|c\n200\n201", []string{invalid, "201"}},
		"too many J lines":                {tooMany + "200\n201", []string{invalid, "201"}},
		"many J lines":                    {tooMany[:7*MaxThen] + "200\n201", []string{"200" + strings.Repeat(" (a|b)", MaxThen), "201"}},
		"jobs with large payloads":        {"J: a|" + strings.Repeat("b", MaxThenBytes) + "\nJ: a|b\n200\n201", []string{invalid, "201"}},
		"a long J line":                   {"J: a|" + strings.Repeat("b", MaxLineBytes) + "\n200\n201", []string{invalid, "201"}},
		"a long comment":                  {"#" + strings.Repeat("b", 2*MaxLineBytes) + "\n200\n201", []string{"200", "201"}},
	} {
		testkit.EqualSlices(t, short(all(t, len(c.want), c.text)), c.want, name)
	}
}

// TestLimits: lines, payloads and sums of payloads at the limit are accepted.
func TestLimits(t *testing.T) {
	payload := strings.Repeat("p", MaxThenBytes)
	a := all(t, 1, "J: a|"+payload+"\n200")[0]
	testkit.Holds(t, a.Code == "" && len(a.Then) == 1 && string(a.Then[0].Payload) == payload, "a job with the largest payload", a.Code, a.Text)
}

// TestLongAnswers: output_bytes bounds an output, and a longer one fails only its own job. White space around an answer
// and the length of an error's text do not count.
func TestLongAnswers(t *testing.T) {
	space, output := strings.Repeat(" \t", mostOutput), strings.Repeat("o", mostOutput)
	text := "200 " + output + "\n200 " + output + "o\n" + space + "201 b" + "\n503 " + output + output + "\n" + space + "# a comment" + space + "\n202 c\n200 " + output + output
	list := all(t, 6, text)
	for i, want := range []string{"ok 200", "failed 0", "ok 201", "error 503", "ok 202", "failed 0"} {
		e := list[i].End(mostOutput)
		testkit.Equal(t, fmt.Sprint(e.Code, " ", e.ExitCode), want, "answer", i, e.Error)
		testkit.Holds(t, e.Code != "failed" || strings.Contains(e.Error, "options.output_bytes"), "answer", i, "failed", e.Error)
	}
	testkit.Holds(t, string(list[0].End(mostOutput).Output) == output && list[2].Text == "b", "the longest output has changed")
	// The rest of a line that is too long for an output takes no memory.
	r := NewReader(1, nil, mostOutput)
	r.Take([]byte("200 "), nil)
	for range 8 {
		r.Take([]byte(output), nil)
	}
	n := len(r.part)
	testkit.Holds(t, n <= mostOutput+lineRoom+1, n, "bytes of a line are kept")
}

// TestAnswersAtOnce: each answer except the last is known as soon as its line is complete.
func TestAnswersAtOnce(t *testing.T) {
	r := NewReader(2, ChainTypes{"*"}, mostOutput)
	_, ok := r.Line([]byte("# 1"))
	testkit.Holds(t, !ok, "a comment is an answer")
	a, ok := r.Line([]byte("204"))
	testkit.Holds(t, ok && a.ExitCode == 204 && r.Answered() == 1, a, ok)
	a, ok = r.Line([]byte("205"))
	testkit.Holds(t, !ok, "the last answer came before its J lines", a)
	r.Line([]byte("J: a|1"))
	testkit.EqualSlices(t, short(r.Rest()), []string{"205 (a|1)"})
	again := r.Rest()
	testkit.Holds(t, again == nil, "Rest returns answers twice", again)
	testkit.Equal(t, len(NewReader(0, ChainTypes{"*"}, mostOutput).Rest()), 0, "a batch without jobs has answers")
}

// TestCutOff: a line that an error cut off does not count, because part of its number may be missing.
func TestCutOff(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(3, ChainTypes{"*"}, mostOutput)
	var got []Answer
	err := r.Read(io.MultiReader(strings.NewReader("200\n20"), iotest.ErrReader(broken)), func(a Answer) { got = append(got, a) })
	got = append(got, r.Rest()...)
	testkit.Holds(t, errors.Is(err, broken), err)
	testkit.EqualSlices(t, short(got), []string{"200", "500 NO_RESPONSE", "500 NO_RESPONSE"})
}

// TestParts: the result does not depend on the parts in which a text arrives.
func TestParts(t *testing.T) {
	text := "# log\nJ: a|" + strings.Repeat("long ", 10_000) + "\n200 ok\n\n404 " + strings.Repeat("no ", 10_000) + "\n503"
	want := all(t, 4, text)
	for _, parts := range []io.Reader{iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
		r := NewReader(4, ChainTypes{"*"}, mostOutput)
		var got []Answer
		testkit.NoError(t, r.Read(parts, func(a Answer) { got = append(got, a) }))
		if got = append(got, r.Rest()...); !reflect.DeepEqual(got, want) {
			t.Errorf("%.300q, want %.300q", short(got), short(want))
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(6, []byte("# log\n200 ok\n\n#J: a|b\n404 nope\n503\nbad\n200"))
	f.Add(2, []byte("J: a|b\r\n200\r\nJ: c\r\n-1"))
	f.Add(3, []byte("#J:|\n100\n99999999999\nJ:x|\xff\n300"))
	f.Fuzz(func(t *testing.T, jobs int, text []byte) {
		jobs = int(uint(jobs) % 50)
		r := NewReader(jobs, ChainTypes{"*"}, mostOutput)
		var got []Answer
		testkit.NoError(t, r.Read(bytes.NewReader(text), func(a Answer) { got = append(got, a) }))
		got = append(got, r.Rest()...)
		testkit.MustEqual(t, len(got), jobs, "answers of", "jobs")
		missing, distrusted := false, false
		for i, a := range got {
			switch {
			case a.ExitCode < 0:
				t.Fatalf("exit code %d", a.ExitCode)
			case a.Code != "" && (a.ExitCode != 500 || a.Text == "" || a.Then != nil):
				t.Fatalf("%+v", a)
			case missing && a.Code != NoResponse:
				t.Fatalf("answer %d comes after a missing one", i)
			case distrusted && a.Code == "":
				t.Fatalf("answer %d comes after an invalid one", i)
			case len(a.Then) > MaxThen:
				t.Fatalf("%d jobs", len(a.Then))
			}
			missing = missing || a.Code == NoResponse
			distrusted = distrusted || a.Code == InvalidResponse && strings.Contains(a.Text, "does not begin with an exit code")
			for _, j := range a.Then {
				testkit.MustHold(t, j.Type != "" && !bytes.ContainsAny(j.Payload, "\n") && j.Kind == client.None, j)
			}
			e := a.End(1 << 10)
			testkit.MustHold(t, e.Code != "" && (len(e.Then) == 0 || e.Code == "ok" || e.Code == "failed"), e)
		}
	})
}

// TestChainTypes: lines create only jobs of the listed types. A line with another type answers nothing and creates
// nothing.
func TestChainTypes(t *testing.T) {
	const text = "J: mail|1\nJ: admin.reset|all\n200 a\n#J: log|2\nJ: a b|x\n200 b\nJ: admin.reset|all"
	for name, c := range map[string]struct {
		types ChainTypes
		want  []string
	}{
		"none": {nil, []string{"200 a", "200 b"}},
		"one":  {ChainTypes{"mail"}, []string{"200 a (mail|1)", "200 b"}},
		"two":  {ChainTypes{"log", "mail"}, []string{"200 a (mail|1)", "200 b (log|2)"}},
		"all":  {ChainTypes{"*"}, []string{"200 a (mail|1) (admin.reset|all)", "500 INVALID_RESPONSE"}},
	} {
		r := NewReader(2, c.types, mostOutput)
		var got []Answer
		testkit.NoError(t, r.Read(strings.NewReader(text), func(a Answer) { got = append(got, a) }))
		testkit.EqualSlices(t, short(append(got, r.Rest()...)), c.want, name)
	}
}
