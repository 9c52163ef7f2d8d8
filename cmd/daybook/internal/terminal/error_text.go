package terminal

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxErrorShown is how many characters of an error a table shows.
const maxErrorShown = 60

// ShortError returns the most informative line of an error, for a table. It ends with … if the error has more text.
func ShortError(text string) string {
	line := tellingLine(text)
	more := line != strings.TrimSpace(text)
	if r := []rune(line); len(r) > maxErrorShown {
		line, more = string(r[:maxErrorShown]), true
	}
	if more {
		line += "…"
	}
	return line
}

// tellingLine returns the line that names the error. An error may be the end of a program's stderr, with a stack:
//
//   - Python ends a traceback with the exception: the first line after the last traceback that is not indented.
//   - Node and Java have the exception before the frames, which begin with "at": the last line before them that is not
//     indented. Node writes lines of the source before it.
//   - Go begins the end of a program with "panic: " or "fatal error: ", and logs of the program may be before it.
//
// For all other errors it is the first line that is not empty.
func tellingLine(text string) string {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")), "\n")
	exception, before := "", ""
	inTraceback := false
	stack := len(lines) - 1 // the last line that begins the stack of a goroutine; -1: there is none
	for stack >= 0 && !strings.HasPrefix(lines[stack], "goroutine ") {
		stack--
	}
	for i, line := range lines {
		indented := line != strings.TrimLeft(line, " \t")
		switch {
		case strings.HasSuffix(strings.TrimSpace(line), "Traceback (most recent call last):"):
			inTraceback = true
		case inTraceback && !indented && line != "":
			exception, inTraceback = line, false
		case exception == "" && indented && strings.HasPrefix(strings.TrimSpace(line), "at ") && before != "":
			exception = before
		case exception == "" && i < stack && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")):
			exception = line
		}
		if !indented && line != "" {
			before = line
		}
	}
	if exception == "" {
		exception = lines[0]
	}
	return strings.TrimSpace(exception)
}

// ErrorLines returns all lines of an error. No character in them can change a terminal: a tab becomes four spaces, and other
// control characters are escaped.
func ErrorLines(text string) []string {
	var b strings.Builder
	for _, r := range strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		switch {
		case r == '\n':
			b.WriteRune(r)
		case r == '\t':
			b.WriteString("    ")
		case unicode.IsControl(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return strings.Split(b.String(), "\n")
}

// AttemptRow is a run of a job in its document.
type AttemptRow struct {
	At       int64  `json:"at"`
	RunnerID string `json:"runner_id"`
	Code     string `json:"code"`
	ExitCode *int   `json:"exit_code"`
	Error    string `json:"error"`
	Why      string `json:"why"`
	Undecodable
}

// Undecodable has the reasons why contents of a document cannot be decrypted, by the names of the contents.
type Undecodable struct {
	Reasons map[string]string `json:"undecodable"`
}

// Of returns a text for people in place of a content that cannot be decrypted, or "" for another field.
func (u *Undecodable) Of(name string) string {
	if reason := u.Reasons[name]; reason != "" {
		return "cannot be decrypted: " + reason
	}
	return ""
}

// AttemptLines returns a line for each run of a job, aligned as a separate table.
func AttemptLines(attempts []AttemptRow) ([]string, error) {
	var b strings.Builder
	err := Table(&b, func(row func(...any)) {
		for _, a := range attempts {
			outcome := OrDash(a.Code)
			if a.ExitCode != nil {
				outcome = fmt.Sprintf("%s %d", outcome, *a.ExitCode)
			}
			row(Moment(a.At), OrDash(a.RunnerID), outcome, a.Why, ShortError(cmp.Or(a.Of("error"), a.Error)))
		}
	})
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n"), err
}
