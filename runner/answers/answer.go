package answers

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/runner/task"
)

// Codes of answers that are errors of the handler. Their exit code is 500.
const (
	NoResponse      = "NO_RESPONSE"
	InvalidResponse = "INVALID_RESPONSE"
)

// Answer is the result of one job, as the lines state it.
type Answer struct {
	ExitCode int
	Code     string // "", NoResponse or InvalidResponse
	Text     string // the text after the exit code; with a Code, the problem
	Then     []client.NewJob
	// Unclear: the job lacks a line, or it is unknown which line is its own. Another job may be the cause.
	Unclear bool
	CutOff  bool // the line was too long for an output, so Text is only its beginning
}

func invalid(why string) Answer {
	return Answer{ExitCode: 500, Code: InvalidResponse, Text: why}
}

// End returns the end of the run: retry for 1xx and for numbers without a class, ok for 2xx, failed for 4xx, error for
// 5xx.
//
// The text is the output of an ok answer, and otherwise the error. If an output exceeds mostOutput bytes, the job
// fails. Jobs are created only if the outcome is ok or failed: after any other outcome the job runs again and would
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
