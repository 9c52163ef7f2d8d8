package answers

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/runner/task"
)

func TestEnd(t *testing.T) {
	then := []client.NewJob{{Type: "a"}}
	outcome := func(code string, exit int, text string) task.End {
		return task.End{Outcome: client.Outcome{Code: code, ExitCode: exit, Error: text}}
	}
	withJobs := func(e task.End) task.End {
		e.Then = then
		return e
	}
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
	e := long.End(10)
	testkit.Equal(t, len(e.Error), task.MaxErrorBytes, "an error of", "bytes")
}
