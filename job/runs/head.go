package runs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/daybookq/daybook/job"
)

// A head line is `#:verb` followed by fields `key=value`, each after a space, in a fixed order. Values are escaped as in
// the header of a journal record. Fields with default values are left out.

// writer appends a head line to a text.
type writer []byte

func (w *writer) verb(verb string) { *w = append(append(*w, "#:"...), verb...) }
func (w *writer) end()             { *w = append(*w, '\n') }

func (w *writer) key(key string) {
	*w = append(*w, ' ')
	*w = append(*w, key...)
	*w = append(*w, '=')
}

// text writes a text unless it is empty.
func (w *writer) text(key, value string) {
	if value != "" {
		w.key(key)
		*w = job.AppendEscaped(*w, value)
	}
}

func (w *writer) int(key string, value int64) {
	w.key(key)
	*w = strconv.AppendInt(*w, value, 10)
}

// set writes a number unless it is the default.
func (w *writer) set(key string, value, otherwise int64) {
	if value != otherwise {
		w.int(key, value)
	}
}

// id writes an id unless it is the default.
func (w *writer) id(key string, id, otherwise job.ID) {
	if id != otherwise {
		w.key(key)
		*w = id.AppendText(*w)
	}
}

// head reads the fields of a head line in order. It keeps the first error.
type head struct {
	rest string // " key=value …"
	err  error
}

func (h *head) fail(format string, args ...any) {
	if h.err == nil {
		h.err = fmt.Errorf(format, args...)
	}
}

// raw returns the value of the next field if the field has that key.
func (h *head) raw(key string) (raw string, ok bool) {
	if h.err != nil || len(h.rest) < len(key)+2 || h.rest[0] != ' ' || h.rest[1:1+len(key)] != key || h.rest[1+len(key)] != '=' {
		return "", false
	}
	raw = h.rest[len(key)+2:]
	if end := strings.IndexByte(raw, ' '); end >= 0 {
		raw = raw[:end]
	}
	if raw == "" {
		h.fail("field %s has no value; leave it out", key)
		return "", false
	}
	h.rest = h.rest[len(key)+2+len(raw):]
	return raw, true
}

// end fails if there are unread fields.
func (h *head) end() error {
	if h.err == nil && h.rest != "" {
		field, _, _ := strings.Cut(strings.TrimPrefix(h.rest, " "), " ")
		h.fail("field %q is unknown, is there twice, or is not in its place", shortened(field))
	}
	return h.err
}

// must fails if a field is missing.
func (h *head) must(key string, ok bool) {
	if !ok {
		h.fail("field %s is missing, or is not in its place", key)
	}
}

// text reads a text of at most hi bytes, or returns "" if the field is missing.
func (h *head) text(key string, hi int) (value string) {
	raw, ok := h.raw(key)
	if !ok {
		return ""
	}
	value, err := job.Unescape(raw)
	if err == nil {
		err = job.CheckText(key, value, 1, hi)
	}
	if err != nil {
		h.fail("field %s: %w", key, err)
	}
	return value
}

// name reads a client or type. The field is required.
func (h *head) name(key string) string {
	raw, ok := h.raw(key)
	h.must(key, ok)
	if err := job.CheckName(key, raw); ok && err != nil {
		h.fail("%w", err)
	}
	return raw
}

// int reads a required number.
func (h *head) int(key string, lo, hi int64) int64 {
	raw, ok := h.raw(key)
	h.must(key, ok)
	return h.number(key, raw, lo, hi)
}

// optional reads a number that may be missing.
func (h *head) optional(key string, lo, hi int64) (n int64, ok bool) {
	raw, ok := h.raw(key)
	if !ok {
		return 0, false
	}
	return h.number(key, raw, lo, hi), true
}

// set reads a number, or returns the default if the field is missing.
func (h *head) set(key string, lo, hi, otherwise int64) int64 {
	n, ok := h.optional(key, lo, hi)
	if !ok {
		return otherwise
	}
	if n == otherwise {
		h.fail("field %s=%d has its default; leave it out", key, n)
	}
	return n
}

func (h *head) number(key, raw string, lo, hi int64) int64 {
	if h.err != nil {
		return lo
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	var spelled [20]byte
	if err != nil || string(strconv.AppendInt(spelled[:0], n, 10)) != raw {
		h.fail("field %s=%s is not a whole number", key, shortened(raw))
		return lo
	}
	if n < lo || n > hi {
		h.fail("field %s=%d is not in %d … %d", key, n, lo, hi)
		return lo
	}
	return n
}

// id reads an id, or returns the default if the field is missing.
func (h *head) id(key string, otherwise job.ID) job.ID {
	raw, ok := h.raw(key)
	if !ok {
		return otherwise
	}
	id, err := job.ParseID(raw)
	switch {
	case err != nil:
		h.fail("field %s=%s: %w", key, shortened(raw), err)
	case id == otherwise:
		h.fail("field %s has its default; leave it out", key)
	}
	return id
}

// jobID reads the id of the first job of a run.
func (h *head) jobID() job.ID {
	id := h.id("job_id", job.ID{})
	h.must("job_id", !id.IsZero())
	return id
}

// count reads the number of jobs of a run whose first job is first.
func (h *head) count(first job.ID) int {
	n := int(h.int("n", 1, job.MaxLines))
	if first.Line()+n > job.MaxLines {
		h.fail("the run has more jobs than a batch can have")
	}
	return n
}

// named reads a name with a parser of package job.
func named[T any](h *head, key string, parse func(field, name string) (T, error)) (value T) {
	raw, ok := h.raw(key)
	if !ok {
		return value
	}
	value, err := parse(key, raw)
	if err != nil {
		h.fail("%w", err)
	}
	return value
}

// shortened cuts a text to the length that an error may quote.
func shortened(text string) string {
	const most = 60
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
