package answer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// The values in documents of jobs, and the results of outcomes, are encoded by hand. documents.go encodes all other
// documents.

// form is the format of an answer with documents.
type form bool

const (
	InJSON  form = false
	InLines form = true // NDJSON: a document must not contain a newline
)

// JobTextBytes is about the length of a job document without its payload. It is used to size buffers.
const JobTextBytes = 800

// appendValue appends a payload or output as a JSON value. It appends null if there is none, or if the field with
// base64 shows it.
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
		if f == InLines {
			// A JSON value can have a newline only between tokens, where a space means the same.
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

// appendB64 appends the base64 of a payload or output that no other field can show: bytes, and text that is not UTF-8.
// Otherwise it appends null.
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

// isPlain reports whether a text is ASCII that needs no escapes in JSON. Most payloads are. It looks at eight bytes at
// a time, because quoting payloads byte by byte took a third of the time for the answer to a claim.
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
	b = append(b, `","claim_id":`...)
	b = AppendID(b, a.Claim)
	b = append(b, `,"started_at":`...)
	b = appendNumber(b, a.StartedAt)
	b = append(b, `,"process_exit":`...)
	b = appendOptional(b, a.ProcessExit)
	b = append(b, `,"log_addr":`...)
	b = appendTextOrNull(b, a.LogAddr)
	return append(b, '}')
}

// AppendText appends a JSON string. Texts are checked when they arrive. If a text has bytes that are not UTF-8 anyway,
// it appends U+FFFD for them.
func AppendText(b []byte, text string) []byte {
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
	return AppendText(b, text)
}

// appendNumber appends a number, and null for 0.
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

func AppendID(b []byte, id job.ID) []byte {
	if id.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = id.AppendText(b)
	return append(b, '"')
}

// appendProgress appends a progress in millionths as a number from 0 to 1, and null for a negative progress.
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

// AppendJobResult appends the result of one outcome.
func AppendJobResult(b []byte, r *applied.JobResult) []byte {
	b = append(b, `{"job_id":`...)
	b = AppendID(b, r.ID)
	if r.Refusal == job.Granted {
		b = append(b, `,"status":"`...)
		b = append(b, r.Status.String()...)
		return append(b, `"}`...)
	}
	b = append(b, `,"status":null,`...)
	b = appendRefusal(b, r.Refusal)
	return append(b, '}')
}

func AppendJobResults(b []byte, results []applied.JobResult) []byte {
	b = append(b, '[')
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendJobResult(b, &results[i])
	}
	return append(b, ']')
}

func appendRefusal(b []byte, r job.Refusal) []byte {
	b = append(b, `"code":`...)
	b = AppendText(b, r.Code())
	b = append(b, `,"detail":`...)
	return AppendText(b, r.Error())
}
