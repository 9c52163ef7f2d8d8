package protocol

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client"
)

// Encoding is the form of texts in messages.
type Encoding bool

const (
	// Plain is for hosts that can read JSON.
	Plain Encoding = false
	// Base64 is for hosts that cannot: texts that may contain any character are in base64, in fields with the suffix
	// _b64. All other values are without escapes.
	Base64 Encoding = true
)

// Load makes the host load a handler. The host answers with loaded.
type Load struct {
	Number     int    `json:"load"` // identifies the handler in batches
	Source     string `json:"source,omitzero"`
	Before     string `json:"before,omitzero"`
	BeforeEach string `json:"before_each,omitzero"`
	AfterEach  string `json:"after_each,omitzero"`
}

// Append appends the message.
func (l Load) Append(dst []byte, e Encoding) ([]byte, error) {
	var message any = l
	if e == Base64 {
		message = struct {
			Number     int    `json:"load"`
			Source     []byte `json:"source_b64,omitempty"`
			Before     []byte `json:"before_b64,omitempty"`
			BeforeEach []byte `json:"before_each_b64,omitempty"`
			AfterEach  []byte `json:"after_each_b64,omitempty"`
		}{l.Number, []byte(l.Source), []byte(l.Before), []byte(l.BeforeEach), []byte(l.AfterEach)}
	}
	text, err := json.Marshal(message, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return dst, fmt.Errorf("encode a handler: %w", err)
	}
	return append(append(dst, text...), '\n'), nil
}

// Batch begins a batch. The lines after it are the jobs.
type Batch struct {
	Jobs        int
	Handler     int
	Client      string
	Type        string
	OutputBytes int64 // most bytes of an output
}

// Append appends the message.
func (b Batch) Append(dst []byte) []byte {
	dst = append(dst, `{"batch":`...)
	dst = strconv.AppendInt(dst, int64(b.Jobs), 10)
	dst = append(dst, `,"handler":`...)
	dst = strconv.AppendInt(dst, int64(b.Handler), 10)
	dst = appendText(dst, `,"client":`, b.Client)
	dst = appendText(dst, `,"type":`, b.Type)
	dst = append(dst, `,"output_bytes":`...)
	dst = strconv.AppendInt(dst, b.OutputBytes, 10)
	return append(dst, "}\n"...)
}

// CheckJob returns why a job cannot be sent, or nil.
func CheckJob(j *client.Job) error {
	switch {
	case j.Kind != client.JSON:
		return nil
	case deeper(j.Payload, MaxDepth):
		return fmt.Errorf("the payload of kind json has values in each other, more than %d deep", MaxDepth)
	case !jsontext.Value(j.Payload).IsValid():
		return errors.New("the payload of kind json is not valid JSON")
	}
	return nil
}

// AppendJob appends the message of a job that CheckJob has accepted.
func AppendJob(dst []byte, j *client.Job, e Encoding) []byte {
	dst = appendText(dst, `{"id":`, j.ID)
	dst = append(dst, `,"attempt":`...)
	dst = strconv.AppendInt(dst, int64(j.RunAttempts), 10)
	dst = append(dst, `,"max_attempts":`...)
	dst = strconv.AppendInt(dst, int64(j.MaxAttempts), 10)
	dst = appendText(dst, `,"kind":`, string(j.Kind))
	if j.Traceparent != "" {
		dst = appendText(dst, `,"traceparent":`, j.Traceparent)
	}
	if len(j.Meta) > 0 {
		dst = appendMeta(dst, j.Meta, e)
	}
	switch {
	case len(j.Payload) == 0 && j.Kind != client.Text && j.Kind != client.Bytes:
	case e == Base64, j.Kind == client.Bytes, j.Kind == client.Text && !utf8.Valid(j.Payload):
		dst = appendBase64(dst, `,"payload_b64":`, j.Payload)
	case j.Kind == client.JSON:
		dst = appendInLine(append(dst, `,"payload":`...), j.Payload)
	default:
		dst = appendText(dst, `,"payload":`, j.Payload)
	}
	return append(dst, "}\n"...)
}

func appendMeta(dst []byte, meta map[string]string, e Encoding) []byte {
	text := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = appendText(appendText(text, "", name), ":", meta[name])
	}
	text = append(text, '}')
	if e == Base64 {
		return appendBase64(dst, `,"meta_b64":`, text)
	}
	return append(append(dst, `,"meta":`...), text...)
}

// MaxDepth bounds the nesting of JSON values. Python reads at most 1,000 levels.
const MaxDepth = 500

// deeper reports whether a JSON value is nested more than most levels deep.
func deeper(value []byte, most int) bool {
	if bytes.Count(value, []byte("["))+bytes.Count(value, []byte("{")) <= most {
		return false
	}
	depth, inText := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			if depth++; depth > most {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// appendText appends a field. In invalid UTF-8, it replaces bytes by replacement characters.
func appendText[T []byte | string](dst []byte, name string, value T) []byte {
	dst, _ = jsontext.AppendQuote(append(dst, name...), value)
	return dst
}

func appendBase64(dst []byte, name string, value []byte) []byte {
	dst = append(append(dst, name...), '"')
	return append(base64.StdEncoding.AppendEncode(dst, value), '"')
}

// appendInLine appends a JSON value on one line. Line ends in JSON are always white space between tokens.
func appendInLine(dst, value []byte) []byte {
	begin := len(dst)
	dst = append(dst, value...)
	if bytes.IndexByte(value, '\n') >= 0 {
		for i, c := range dst[begin:] {
			if c == '\n' {
				dst[begin+i] = ' '
			}
		}
	}
	return dst
}
