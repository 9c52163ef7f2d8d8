package answers

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/runner/task"
)

// The codes of answers that are errors of the handler. Their exit code is 500.
const (
	NoResponse      = "NO_RESPONSE"
	InvalidResponse = "INVALID_RESPONSE"
)

// Answer is what the lines say about one job.
type Answer struct {
	ExitCode int
	Code     string // "", NoResponse or InvalidResponse
	Text     string // what follows the exit code; with a Code, what is wrong
	Then     []client.NewJob
	// Unclear: the job has no line, or nobody knows which line is its own. Another job may be the reason.
	Unclear bool
	CutOff  bool // the line was longer than an output may be, so Text is only its beginning
}

func invalid(why string) Answer {
	return Answer{ExitCode: 500, Code: InvalidResponse, Text: why}
}

// End returns the end of the run: retry for 1xx and for numbers without a class, ok for 2xx, failed for 4xx, error for
// 5xx.
//
// The text is the output of an ok answer, and the error of any other. An output of more than mostOutput bytes makes the
// job failed. Jobs are created only with the outcomes ok and failed: after the others the job runs again, and would
// create them again.
func (a *Answer) End(mostOutput int64) task.End {
	o := client.Outcome{ExitCode: a.ExitCode}
	switch class := job.ExitCodeClass(a.ExitCode); class {
	case job.OK:
		if a.CutOff || int64(len(a.Text)) > mostOutput {
			return task.Failed(fmt.Sprintf("the answer %d has an output of more than %d bytes, which is what options.output_bytes allows", a.ExitCode, mostOutput))
		}
		o.Code = class.String()
		o.Output, o.OutputKind = output(a.Text)
		return task.End{Outcome: o, Then: a.Then}
	case job.Fail:
		o.Code, o.Error = class.String(), task.Text(a.errorText())
		return task.End{Outcome: o, Then: a.Then}
	case job.Retry, job.Error:
		o.Code, o.Error = class.String(), task.Text(a.errorText())
		return task.End{Outcome: o}
	}
	text := "exit code " + strconv.Itoa(a.ExitCode)
	if a.Text != "" {
		text += ": " + a.Text
	}
	return task.Retry(text, -1)
}

func (a *Answer) errorText() string {
	switch {
	case a.Code != "":
		return a.Code + ": " + a.Text
	case a.Text == "":
		return "exit code " + strconv.Itoa(a.ExitCode)
	}
	return a.Text
}

func output(text string) ([]byte, client.Kind) {
	switch {
	case text == "":
		return nil, client.None
	case utf8.ValidString(text):
		return []byte(text), client.Text
	}
	return []byte(text), client.Bytes
}
