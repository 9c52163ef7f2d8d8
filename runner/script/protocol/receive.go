package protocol

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Message is a message of a host. At most one of Loaded, Begun, Job, Done and Exits is set. If none is, the message has
// prints only.
type Message struct {
	Loaded *int `json:"loaded"` // the handler was loaded, or could not be loaded if Error is set
	Begun  bool `json:"begun"`  // before_each has run
	Job    *int `json:"job"`    // the answer of the job at this index of the batch
	Done   bool `json:"done"`   // the batch has ended, and after_each has run
	Exits  bool `json:"exits"`  // the process ends now, because the running job ended it

	Code      string         `json:"code"` // ok, failed, retry or error
	Output    jsontext.Value `json:"output"`
	OutputB64 []byte         `json:"output_b64"`
	Error     string         `json:"error"`
	ErrorB64  []byte         `json:"error_b64"`
	DelayMs   *int64         `json:"delay_ms"`

	// Prints is the text that the running job printed since the last message. Broken is set if its lone surrogates were
	// replaced by replacement characters.
	Prints    string         `json:"-"`
	Broken    bool           `json:"-"`
	RawPrints jsontext.Value `json:"prints"`
	PrintsB64 []byte         `json:"prints_b64"`
}

// okHead and okTail enclose the number of a job that ended ok without output or prints, as the hosts write it.
const okHead, okTail = `{"job":`, `,"code":"ok"}`

// decodeOK reads the answer of a job that ended ok without output or prints. In many systems these are most answers.
func decodeOK(line []byte) (job int, ok bool) {
	number, begins := bytes.CutPrefix(line, []byte(okHead))
	number, ends := bytes.CutSuffix(number, []byte(okTail))
	if !begins || !ends || len(number) == 0 || len(number) > 6 || number[0] == '0' && len(number) > 1 {
		return 0, false
	}
	for _, c := range number {
		if c < '0' || c > '9' {
			return 0, false
		}
		job = 10*job + int(c-'0')
	}
	return job, true
}

// Decode reads a line. The message does not retain the line.
func Decode(line []byte) (*Message, error) {
	if job, ok := decodeOK(line); ok {
		return &Message{Job: &job, Code: "ok"}, nil
	}
	return decode(line)
}

func decode(line []byte) (*Message, error) {
	m := new(Message)
	// Handlers may return strings with lone surrogates, and objects with duplicate names. These are errors of the job,
	// not of the host. In errors and prints, lone surrogates become replacement characters.
	if err := json.Unmarshal(line, m, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("%.200q is not a message: %w", line, err)
	}
	if m.RawPrints != nil {
		text, whole, ok := unquote(m.RawPrints)
		if !ok {
			return nil, fmt.Errorf("%.200q has prints that are no text", line)
		}
		m.Prints, m.Broken, m.RawPrints = text, !whole, nil
	}
	kinds := 0
	for _, set := range []bool{m.Loaded != nil, m.Begun, m.Job != nil, m.Done, m.Exits} {
		if set {
			kinds++
		}
	}
	if kinds > 1 || kinds == 0 && m.Prints == "" && m.PrintsB64 == nil {
		return nil, fmt.Errorf("%.200q is not one message", line)
	}
	if m.Error == "" && m.ErrorB64 != nil {
		m.Error = string(m.ErrorB64)
	}
	if m.Prints == "" && m.PrintsB64 != nil {
		m.Prints = string(m.PrintsB64)
	}
	if len(m.OutputB64) > 0 && m.Output != nil {
		return nil, fmt.Errorf("%.200q has two outputs", line)
	}
	return m, nil
}

// Text returns the output if it is a JSON string. whole is false if it has a lone surrogate, which valid UTF-8 cannot
// contain. Text replaces it by a replacement character.
func (m *Message) Text() (text string, whole, ok bool) { return unquote(m.Output) }

func unquote(v jsontext.Value) (text string, whole, ok bool) {
	if v.Kind() != jsontext.KindString {
		return "", false, false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil && !utf8.Valid(b) {
		return "", false, false
	}
	return string(b), err == nil, true
}
