package api

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// The documents of the API are appended field by field, in the order of docs/api.md: an answer to a claim holds up to a thousand
// jobs, and reflection would cost more than everything else that happens to them.

// form says how documents are put together.
type form bool

const (
	inJSON  form = false
	inLines form = true // NDJSON: a document must not hold a newline
)

// jobTextBytes is about what a job document takes beside its payload, to size buffers by.
const jobTextBytes = 800

// appendJob appends the document of a job.
func appendJob(b []byte, j *job.Job, f form) []byte {
	b = append(b, `{"job_id":"`...)
	b = j.ID.AppendText(b)
	b = appendJobHead(b, j)
	b = appendPayload(b, j, f)
	return appendJobTail(b, j, f)
}

// jobs appends the documents of one answer after another. Jobs that a claim handed out together mostly differ in id and payload alone;
// what surrounds those is then copied from the document before, which takes a quarter of the time.
type jobs struct {
	last          *job.Job
	head, headEnd int // where in the answer the shared parts of the last document lie
	tail, tailEnd int
}

func (e *jobs) append(b []byte, j *job.Job, f form) []byte {
	b = append(b, `{"job_id":"`...)
	b = j.ID.AppendText(b)
	if e.last != nil && alike(e.last, j) {
		b = append(b, b[e.head:e.headEnd]...)
		b = appendPayload(b, j, f)
		return append(b, b[e.tail:e.tailEnd]...)
	}
	e.last, e.head = j, len(b)
	b = appendJobHead(b, j)
	e.headEnd = len(b)
	b = appendPayload(b, j, f)
	e.tail = len(b)
	b = appendJobTail(b, j, f)
	e.tailEnd = len(b)
	return b
}

// alike reports whether the documents of two jobs differ in id and payload at most.
func alike(a, b *job.Job) bool {
	return a.Batch == b.Batch && a.CreatedAt == b.CreatedAt && a.UpdatedAt == b.UpdatedAt && a.Claim == b.Claim && a.DeadlineAt == b.DeadlineAt &&
		a.Status == b.Status && a.Priority == b.Priority && a.RunAttempts == b.RunAttempts && a.MaxAttempts == b.MaxAttempts && a.LeaseMs == b.LeaseMs &&
		a.RunAt == b.RunAt && a.CompletedAt == b.CompletedAt && a.Code == b.Code && a.ExitCode == b.ExitCode && a.Progress == b.Progress &&
		a.Client == b.Client && a.Type == b.Type && a.Runner == b.Runner && a.Error == b.Error && a.Step == b.Step &&
		len(a.Attempts)+len(b.Attempts) == 0 && a.Result.Empty() && b.Result.Empty()
}

func appendJobHead(b []byte, j *job.Job) []byte {
	b = append(b, `","batch_id":"`...)
	b = j.Batch.AppendText(b)
	b = append(b, `","client":"`...)
	b = append(b, j.Client...) // names need no escape
	b = append(b, `","type":"`...)
	b = append(b, j.Type...)
	b = append(b, `","status":"`...)
	b = append(b, j.Status.String()...)
	b = append(b, `","priority":`...)
	return strconv.AppendInt(b, int64(j.Priority), 10)
}

func appendJobTail(b []byte, j *job.Job, f form) []byte {
	b = appendResult(b, &j.Result, f)
	b = appendCode(b, j.Code)
	b = append(b, `,"exit_code":`...)
	b = appendNumber(b, int64(j.ExitCode))
	b = append(b, `,"process_exit":`...)
	b = appendOptional(b, j.ProcessExit)
	b = append(b, `,"error":`...)
	b = appendTextOrNull(b, j.Error)
	b = append(b, `,"attempts":[`...)
	for i := range j.Attempts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAttempt(b, &j.Attempts[i])
	}
	b = append(b, `],"step":`...)
	b = appendTextOrNull(b, j.Step)
	b = append(b, `,"progress":`...)
	b = appendProgress(b, j.Progress)
	b = append(b, `,"runner_id":`...)
	b = appendTextOrNull(b, j.Runner)
	b = append(b, `,"claim_id":`...)
	b = appendID(b, j.Claim)
	b = append(b, `,"run_attempts":`...)
	b = strconv.AppendInt(b, int64(j.RunAttempts), 10)
	b = append(b, `,"max_attempts":`...)
	b = strconv.AppendInt(b, int64(j.MaxAttempts), 10)
	b = append(b, `,"lease_ms":`...)
	b = strconv.AppendInt(b, j.LeaseMs, 10)
	b = append(b, `,"run_at":`...)
	b = appendNumber(b, j.RunAt)
	b = append(b, `,"created_at":`...)
	b = strconv.AppendInt(b, j.CreatedAt, 10)
	b = append(b, `,"updated_at":`...)
	b = strconv.AppendInt(b, j.UpdatedAt, 10)
	b = append(b, `,"completed_at":`...)
	b = appendNumber(b, j.CompletedAt)
	b = append(b, `,"deadline_at":`...)
	b = appendNumber(b, j.DeadlineAt)
	return append(b, '}')
}

// appendGone appends what is still known of a job that was purged right after the change which is being answered.
func appendGone(b []byte, id job.ID, status job.Status) []byte {
	b = append(b, `{"job_id":"`...)
	b = id.AppendText(b)
	b = append(b, `","batch_id":"`...)
	b = id.WithLine(0).AppendText(b)
	b = append(b, `","client":null,"type":null,"status":"`...)
	b = append(b, status.String()...)
	return append(b, `","priority":null,"payload":null,"payload_b64":null,"binary_addr":null,"input_addr":null,`+
		`"output_addr":null,"output":null,"output_b64":null,"code":null,"exit_code":null,"process_exit":null,"error":null,`+
		`"attempts":[],"step":null,"progress":null,"runner_id":null,"claim_id":null,"run_attempts":null,"max_attempts":null,`+
		`"lease_ms":null,"run_at":null,"created_at":null,"updated_at":null,"completed_at":null,"deadline_at":null}`...)
}

func appendPayload(b []byte, j *job.Job, f form) []byte {
	if j.Kind == job.WASI {
		if binary, input, err := job.ParseWASI(j.Payload); err == nil {
			b = append(b, `,"payload":null,"payload_b64":null,"binary_addr":`...)
			b = appendText(b, binary)
			b = append(b, `,"input_addr":`...)
			return appendTextOrNull(b, input)
		}
	}
	b = append(b, `,"payload":`...)
	b = appendContent(b, j.Kind, j.Payload, `,"payload_b64":`, f)
	return append(b, `,"binary_addr":null,"input_addr":null`...)
}

func appendResult(b []byte, r *job.Result, f form) []byte {
	if r.Empty() {
		return append(b, `,"output_addr":null,"output":null,"output_b64":null`...)
	}
	b = append(b, `,"output_addr":`...)
	b = appendTextOrNull(b, r.OutputAddr)
	b = append(b, `,"output":`...)
	return appendContent(b, r.OutputKind, r.Output, `,"output_b64":`, f)
}

// appendContent appends a payload or output: a value, the name of its base64 sibling, and that one's value. One of the values is
// null, or both are.
func appendContent(b []byte, kind job.Kind, content []byte, base64Name string, f form) []byte {
	switch kind {
	case job.Nothing:
		b = append(b, "null"...)
		b = append(b, base64Name...)
		return append(b, "null"...)
	case job.Text:
		if isPlain(content) {
			b = append(b, '"')
			b = append(b, content...)
			b = append(b, '"')
			b = append(b, base64Name...)
			return append(b, "null"...)
		}
		if quoted, err := jsontext.AppendQuote(b, content); err == nil {
			b = append(quoted, base64Name...)
			return append(b, "null"...)
		}
	case job.JSON:
		at := len(b)
		b = append(b, content...)
		if f == inLines {
			// A newline of a JSON value stands between its tokens, where a space is as good.
			for i := at; i < len(b); i++ {
				if b[i] == '\n' || b[i] == '\r' {
					b[i] = ' '
				}
			}
		}
		b = append(b, base64Name...)
		return append(b, "null"...)
	}
	b = append(b, "null"...)
	b = append(b, base64Name...)
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, content)
	return append(b, '"')
}

// isPlain reports whether a text is ASCII that needs no escape in JSON, eight bytes at a time: most payloads are, and quoting them byte
// by byte took a third of the time that a claim's answer takes.
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
	b = appendCode(b, a.Code)
	b = append(b, `,"exit_code":`...)
	b = appendNumber(b, int64(a.ExitCode))
	b = append(b, `,"error":`...)
	b = appendTextOrNull(b, a.Error)
	b = append(b, `,"why":"`...)
	b = append(b, a.Why.String()...)
	return append(b, `"}`...)
}

func appendCode(b []byte, c job.Code) []byte {
	b = append(b, `,"code":`...)
	return appendTextOrNull(b, c.String())
}

// appendText appends a JSON string. Texts were checked when they came in; should one not be UTF-8 all the same, what is broken shows
// as U+FFFD.
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

// appendNumber appends a number for which 0 stands for none.
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

func appendCounts(b []byte, counts *job.Counts) []byte {
	b = append(b, '{')
	for i, status := range job.Statuses {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, status.String()...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, counts[status], 10)
	}
	return append(b, '}')
}

func appendBatch(b []byte, batch *store.Batch) []byte {
	b = append(b, `{"batch_id":`...)
	b = appendID(b, batch.ID)
	b = append(b, `,"created_at":`...)
	b = strconv.AppendInt(b, batch.CreatedAt, 10)
	b = append(b, `,"count":`...)
	b = strconv.AppendInt(b, int64(batch.Lines), 10)
	b = append(b, `,"counts":`...)
	b = appendCounts(b, &batch.Counts)
	b = append(b, `,"purged":`...)
	b = strconv.AppendInt(b, int64(batch.Lines)-batch.Counts.Total(), 10)
	return append(b, '}')
}

func appendQueue(b []byte, q *store.Queue, now int64) []byte {
	b = append(b, `{"client":"`...)
	b = append(b, q.Client...)
	b = append(b, `","type":"`...)
	b = append(b, q.Type...)
	b = append(b, `","paused":`...)
	b = strconv.AppendBool(b, q.Paused)
	b = append(b, `,"created_at":`...)
	b = strconv.AppendInt(b, q.CreatedAt, 10)
	b = append(b, `,"counts":`...)
	b = appendCounts(b, &q.Counts)
	b = append(b, `,"oldest_pending_age_ms":`...)
	if q.PendingSince == 0 {
		return append(b, "null}"...)
	}
	b = strconv.AppendInt(b, max(now-q.PendingSince, 0), 10)
	return append(b, '}')
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

func appendLost(b []byte, lost []store.JobResult) []byte {
	b = append(b, '[')
	for i := range lost {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"job_id":`...)
		b = appendID(b, lost[i].ID)
		b = append(b, `,"code":`...)
		b = appendText(b, lost[i].Refusal.Code())
		b = append(b, '}')
	}
	return append(b, ']')
}

// Answers are built in buffers that serve again, up to a size that a thousand ordinary jobs fit into.
const maxPooledAnswer = 1 << 20

var answerBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// buffer takes a buffer; putBuffer gives it back.
func buffer() *[]byte { return answerBuffers.Get().(*[]byte) }

func putBuffer(at *[]byte, b []byte) {
	if cap(b) <= maxPooledAnswer {
		*at = b[:0]
		answerBuffers.Put(at)
	}
}

// answer writes a whole answer with its length.
func answer(c echo.Context, status int, kind string, text []byte) error {
	w := c.Response()
	h := w.Header()
	h[echo.HeaderContentType] = []string{kind}
	h[echo.HeaderContentLength] = []string{strconv.Itoa(len(text))}
	h["X-Content-Type-Options"] = nosniff
	w.WriteHeader(status)
	_, err := w.Write(text)
	return err
}

// A browser must not take a payload that is shown for a page of this server.
var nosniff = []string{"nosniff"}

const headerSeq = "Daybook-Seq"

func setSeq(c echo.Context, seq uint64) {
	c.Response().Header()[headerSeq] = []string{strconv.FormatUint(seq, 10)}
}

// answerJob writes the document of a job.
func answerJob(c echo.Context, status int, j *job.Job) error {
	at := buffer()
	b := append(appendJob(*at, j, inJSON), '\n')
	err := answer(c, status, mimeJSON, b)
	putBuffer(at, b)
	return err
}
