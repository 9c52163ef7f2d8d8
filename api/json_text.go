package api

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// Values of documents of jobs, and results of outcomes, are appended by hand; see documents.go for all others.

// form says how documents are put together.
type form bool

const (
	inJSON  form = false
	inLines form = true // NDJSON: a document must not hold a newline
)

// jobTextBytes is about what a job document takes beside its payload, to size buffers by.
const jobTextBytes = 800

// appendValue appends a payload or output as a value: null where there is none, or where its base64 sibling has it.
func appendValue(b []byte, kind job.Kind, content []byte, f form) []byte {
	switch kind {
	case job.Text:
		if isPlain(content) {
			b = append(b, '"')
			b = append(b, content...)
			return append(b, '"')
		}
		if quoted, err := jsontext.AppendQuote(b, content); err == nil {
			return quoted
		}
	case job.JSON:
		at := len(b)
		b = append(b, content...)
		if f == inLines {
			// A newline of a JSON value is between its tokens, where a space means the same.
			for i := at; i < len(b); i++ {
				if b[i] == '\n' || b[i] == '\r' {
					b[i] = ' '
				}
			}
		}
		return b
	}
	return append(b, "null"...)
}

// appendB64 appends the base64 of a payload or output that has no other form: bytes, and text that is not UTF-8.
func appendB64(b []byte, kind job.Kind, content []byte) []byte {
	shown := kind == job.Nothing || kind == job.JSON || kind == job.Text && utf8.Valid(content)
	if kind == job.WASI {
		_, _, err := job.ParseWASI(content)
		shown = err == nil
	}
	if shown {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, content)
	return append(b, '"')
}

// isPlain reports whether a text is ASCII that needs no escape in JSON, eight bytes at a time: most payloads are, and
// quoting them byte by byte took a third of the time that a claim's answer takes.
func isPlain(text []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(text) >= 8 {
		v := binary.LittleEndian.Uint64(text)
		quote, slash := v^'"'*ones, v^'\\'*ones
		control := (v - ' '*ones) &^ v
		if (v|control|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
			return false
		}
		text = text[8:]
	}
	for _, c := range text {
		if c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendAttempt(b []byte, a *job.Attempt) []byte {
	b = append(b, `{"at":`...)
	b = strconv.AppendInt(b, a.At, 10)
	b = append(b, `,"runner_id":`...)
	b = appendTextOrNull(b, a.Runner)
	b = append(b, `,"code":`...)
	b = appendTextOrNull(b, a.Code.String())
	b = append(b, `,"exit_code":`...)
	b = appendNumber(b, int64(a.ExitCode))
	b = append(b, `,"error":`...)
	b = appendTextOrNull(b, a.Error)
	b = append(b, `,"why":"`...)
	b = append(b, a.Why.String()...)
	return append(b, `"}`...)
}

// appendText appends a JSON string. Texts were checked when they came in; should one not be UTF-8 all the same, what is
// broken shows as U+FFFD.
func appendText(b []byte, text string) []byte {
	if quoted, err := jsontext.AppendQuote(b, text); err == nil {
		return quoted
	}
	quoted, err := jsontext.AppendQuote(b, strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		panic("quote of a valid text: " + err.Error())
	}
	return quoted
}

func appendTextOrNull(b []byte, text string) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	return appendText(b, text)
}

// appendNumber appends a number for which 0 means none.
func appendNumber(b []byte, n int64) []byte {
	if n == 0 {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, n, 10)
}

func appendOptional(b []byte, n *int64) []byte {
	if n == nil {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, *n, 10)
}

func appendID(b []byte, id job.ID) []byte {
	if id.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = id.AppendText(b)
	return append(b, '"')
}

// appendProgress appends millionths as a fraction of 1.
func appendProgress(b []byte, millionths int64) []byte {
	switch {
	case millionths < 0:
		return append(b, "null"...)
	case millionths == 0:
		return append(b, '0')
	case millionths >= job.ProgressUnit:
		return append(b, '1')
	}
	b = append(b, "0."...)
	digits := strconv.AppendInt(nil, job.ProgressUnit+millionths, 10)[1:]
	return append(b, bytes.TrimRight(digits, "0")...)
}

// appendJobResult appends what became of one outcome.
func appendJobResult(b []byte, r *store.JobResult) []byte {
	b = append(b, `{"job_id":`...)
	b = appendID(b, r.ID)
	if r.Refusal == job.Granted {
		b = append(b, `,"status":"`...)
		b = append(b, r.Status.String()...)
		return append(b, `"}`...)
	}
	b = append(b, `,"status":null,`...)
	b = appendRefusal(b, r.Refusal)
	return append(b, '}')
}

func appendJobResults(b []byte, results []store.JobResult) []byte {
	b = append(b, '[')
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJobResult(b, &results[i])
	}
	return append(b, ']')
}

func appendRefusal(b []byte, r job.Refusal) []byte {
	b = append(b, `"code":`...)
	b = appendText(b, r.Code())
	b = append(b, `,"detail":`...)
	return appendText(b, r.Error())
}
