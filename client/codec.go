package client

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/digest"
)

// Codec encodes payloads, outputs and errors before the client sends them, and decodes those that it receives. Package
// encryption has one, so that the server cannot read them. Its methods are called from many goroutines.
//
// The client encodes neither a missing payload or output, nor a WASI payload, nor a Reference. When it receives one of
// these, or a payload that is the address of a blob, which the server makes of an output, it does not decode it.
type Codec interface {
	// Encode returns the text that the server stores. It has no newline, so that it can be a line. If repeat is not "",
	// Encode returns the same for the same arguments: the server refuses a repeated request with another content.
	Encode(part Part, c Content, repeat string) (text []byte, err error)
	// Decode is the inverse of Encode. It also decodes as PartPayload what was encoded as PartOutput, because an output
	// becomes the payload of the job that follows. It returns errors that the server wrote itself as they are.
	Decode(part Part, text []byte) (Content, error)
	// EncodedLen returns how long n bytes are at most when they are encoded. It must not decrease as n grows.
	EncodedLen(n int) int
}

// Part is the part of a job that a Codec encodes.
type Part string

// The parts of a job that a Codec encodes.
const (
	PartPayload Part = "payload"
	PartOutput  Part = "output"
	PartError   Part = "error"
)

// Content is a payload, an output or an error. An error is a Text.
type Content struct {
	Kind Kind
	Data []byte
}

// Codec returns Options.Codec.
func (c *Client) Codec() Codec { return c.o.Codec }

// MaxContent returns how long a content may be to need at most limit bytes when it is encoded.
func (c *Client) MaxContent(limit int) int {
	if c.o.Codec == nil {
		return limit
	}
	return sort.Search(limit, func(n int) bool { return c.o.Codec.EncodedLen(n+1) > limit })
}

// passes reports whether a content is sent and received as it is.
func (c *Content) passes() bool {
	switch c.Kind = c.Kind.Of(c.Data); c.Kind {
	case None, WASI:
		return true
	case JSON:
		if string(bytes.TrimSpace(c.Data)) == "null" { // for the server, this is no payload
			return true
		}
	}
	_, isReference := ParseReference(c.Kind, c.Data)
	return isReference
}

// encode encodes a payload or output for the server, which stores at most limit bytes. Without a Codec it does nothing.
func (c *Client) encode(part Part, kind *Kind, data *[]byte, limit int, repeat string) error {
	content := Content{*kind, *data}
	if c.o.Codec == nil || content.passes() {
		return nil
	}
	// The server would refuse these, and cannot any more.
	switch {
	case content.Kind == Text && !utf8.Valid(content.Data):
		return fmt.Errorf("%w: the %s of kind text is not valid UTF-8", problem.ErrBadRequest, part)
	case content.Kind == JSON && !jsontext.Value(content.Data).IsValid():
		return fmt.Errorf("%w: the %s of kind json is not valid JSON", problem.ErrBadRequest, part)
	}
	n := len(content.Data)
	if c.o.Codec.EncodedLen(n) > limit {
		return fmt.Errorf("%w: the %s of %d bytes is longer than %d bytes when it is encoded; the maximum is %d",
			problem.ErrTooLarge, part, n, limit, c.MaxContent(limit))
	}
	text, err := c.o.Codec.Encode(part, content, repeat)
	if err != nil {
		return fmt.Errorf("%w: encode the %s: %w", problem.ErrBadRequest, part, err)
	}
	*kind, *data = Text, text
	return nil
}

// encodeError encodes the text of an error. It cuts the text so that the encoded one has at most the server's limit.
func (c *Client) encodeError(text *string, repeat string) error {
	if c.o.Codec == nil || *text == "" {
		return nil
	}
	plain := bytes.ToValidUTF8([]byte(*text), []byte("\uFFFD"))
	if most := c.MaxContent(job.MaxErrorBytes); len(plain) > most {
		plain = bytes.ToValidUTF8(plain[:most], nil)
	}
	encoded, err := c.o.Codec.Encode(PartError, Content{Text, plain}, repeat)
	if err != nil {
		return fmt.Errorf("%w: encode an error: %w", problem.ErrBadRequest, err)
	}
	*text = string(encoded)
	return nil
}

// repeatOf returns the text that names a request with this idempotency key, or with the client's number, in all its
// repeats; "" if it is not repeated.
func (c *Client) repeatOf(key string) string {
	switch {
	case key != "":
		return "key " + key
	case c.own != (transport.Number{}):
		return fmt.Sprintf("number %s %d %d", c.own.Session, c.own.Slot, c.own.Number)
	}
	return ""
}

// within names a part of a request that is repeated.
func within(repeat, part string) string {
	if repeat == "" {
		return ""
	}
	return repeat + " " + part
}

// encodedJob returns a job as the server gets it.
func (c *Client) encodedJob(j NewJob, repeat string) (NewJob, error) {
	err := c.encode(PartPayload, &j.Kind, &j.Payload, job.MaxPayloadBytes, repeat)
	return j, err
}

// encodedJobs returns jobs as the server gets them.
func (c *Client) encodedJobs(jobs []NewJob, repeat string) ([]NewJob, error) {
	if c.o.Codec == nil {
		return jobs, nil
	}
	jobs = slices.Clone(jobs)
	for i := range jobs {
		var err error
		if jobs[i], err = c.encodedJob(jobs[i], within(repeat, strconv.Itoa(i))); err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
	}
	return jobs, nil
}

// encodedLines returns lines of text as the server gets them.
func (c *Client) encodedLines(lines []byte, o *AddOptions) ([]byte, error) {
	body := make([]byte, 0, c.o.Codec.EncodedLen(len(lines)))
	n, repeat := 0, c.repeatOf(o.Key)
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if o.StripCR {
			line = bytes.TrimSuffix(line, []byte{'\r'})
		}
		if len(line) == 0 {
			continue
		}
		kind := Text
		if !utf8.Valid(line) { // such a line is stored as it is, and read as bytes
			kind = Bytes
		}
		if err := c.encode(PartPayload, &kind, &line, job.MaxPayloadBytes, within(repeat, strconv.Itoa(n))); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		body = append(append(body, line...), '\n')
		n++
	}
	return body, nil
}

// encodedValue returns a line that is a JSON value as the server gets it.
func (c *Client) encodedValue(line []byte, repeat string) ([]byte, error) {
	if c.o.Codec == nil {
		return line, nil
	}
	data, kind, err := content(line, nil)
	if err == nil {
		err = c.encode(PartPayload, &kind, &data, job.MaxPayloadBytes, repeat)
	}
	if err != nil || kind != Text {
		return line, err
	}
	return jsontext.AppendQuote(nil, data)
}

// lineSizes returns a function that returns how long a line of so many bytes is in a post, at most. other is what is added
// to each line.
func (c *Client) lineSizes(other int, kind Kind) func(line int) int {
	switch {
	case c.o.Codec == nil:
		return func(line int) int { return line + other }
	case kind == JSON:
		other += 2 // quotes
	}
	return func(line int) int { return c.o.Codec.EncodedLen(line) + 1 + other }
}

// encodedOutcome returns an outcome as the server gets it. The server compares repeated outcomes of a claim.
func (c *Client) encodedOutcome(o Outcome, claimID, jobID string) (Outcome, error) {
	if c.o.Codec == nil {
		return o, nil
	}
	repeat := ""
	if claimID != "" {
		repeat = "outcome " + claimID + " " + jobID
	}
	if err := c.encode(PartOutput, &o.OutputKind, &o.Output, job.MaxOutputBytes, repeat); err != nil {
		return o, err
	}
	if err := c.encodeError(&o.Error, repeat); err != nil {
		return o, err
	}
	var err error
	if o.Then, err = c.encodedJobs(o.Then, within(repeat, "then")); err != nil {
		return o, fmt.Errorf("then: %w", err)
	}
	return o, nil
}

// encodedOutcomes returns outcomes as the server gets them. claimID is the claim of those that name none.
func (c *Client) encodedOutcomes(outcomes []JobOutcome, claimID string) ([]JobOutcome, error) {
	if c.o.Codec == nil {
		return outcomes, nil
	}
	outcomes = slices.Clone(outcomes)
	for i := range outcomes {
		o := &outcomes[i]
		of := o.ClaimID
		if of == "" {
			of = claimID
		}
		var err error
		if o.Outcome, err = c.encodedOutcome(o.Outcome, of, o.JobID); err != nil {
			return nil, fmt.Errorf("the outcome of job %s: %w", o.JobID, err)
		}
	}
	return outcomes, nil
}

// undecodable is ErrUndecodable for a part of a job.
type undecodable struct {
	part   Part
	reason error
}

func (u *undecodable) Error() string {
	return fmt.Sprintf("%v: the %s: %v", problem.ErrUndecodable, u.part, u.reason)
}
func (u *undecodable) Unwrap() []error { return []error{problem.ErrUndecodable, u.reason} }

// decode decodes a payload or output. If it cannot, the content is missing after that, so that nobody takes the encoded
// one for it.
func (c *Client) decode(part Part, kind *Kind, data *[]byte) error {
	content := Content{*kind, *data}
	if c.o.Codec == nil || content.passes() || part == PartPayload && isAddress(&content) {
		return nil
	}
	*kind, *data = None, nil
	if content.Kind != Text {
		return &undecodable{part, fmt.Errorf("it is of kind %s, and encoded ones are texts", content.Kind)}
	}
	decoded, err := c.o.Codec.Decode(part, content.Data)
	if err != nil {
		return &undecodable{part, err}
	}
	*kind, *data = decoded.Kind, decoded.Data
	return nil
}

// isAddress reports whether a payload is the address of a blob. The server makes one of an output that is stored as a
// blob.
func isAddress(c *Content) bool {
	if c.Kind != Text || len(c.Data) > job.MaxAddrBytes {
		return false
	}
	ref, err := digest.Parse(string(c.Data))
	return err == nil && ref.SHA256 != nil
}

// decodeError decodes the text of an error. If it cannot, the text stays as it is.
func (c *Client) decodeError(text *string) error {
	if c.o.Codec == nil || *text == "" {
		return nil
	}
	decoded, err := c.o.Codec.Decode(PartError, []byte(*text))
	if err != nil {
		return &undecodable{PartError, err}
	}
	*text = string(decoded.Data)
	return nil
}

// decodeJob decodes the payload, the output and the errors of a job, and its document.
func (c *Client) decodeJob(j *Job) *Job {
	if c.o.Codec == nil {
		return j
	}
	failed := func(err error) {
		if err != nil && j.Undecodable == nil {
			j.Undecodable = fmt.Errorf("job %s: %w", j.ID, err)
		}
	}
	failed(c.decode(PartPayload, &j.Kind, &j.Payload))
	failed(c.decode(PartOutput, &j.OutputKind, &j.Output))
	failed(c.decodeError(&j.Error))
	for i := range j.Attempts {
		failed(c.decodeError(&j.Attempts[i].Error))
	}
	if j.Text != nil {
		text, err := c.DecodeDocument(j.Text)
		if text != nil {
			j.Text = text
		}
		failed(err)
	}
	return j
}

// decodeClaimed decodes claimed jobs. Only a payload that cannot be decoded keeps a job from running.
func (c *Client) decodeClaimed(jobs []*Job) {
	if c.o.Codec == nil {
		return
	}
	for _, j := range jobs {
		if err := c.decode(PartPayload, &j.Kind, &j.Payload); err != nil {
			j.Undecodable = fmt.Errorf("job %s: %w", j.ID, err)
		}
		_ = c.decodeError(&j.Error) // stays as it is
		for i := range j.Attempts {
			_ = c.decodeError(&j.Attempts[i].Error)
		}
	}
}

func (c *Client) decodeJobs(jobs []*Job) {
	for _, j := range jobs {
		c.decodeJob(j)
	}
}

// DecodeDocument returns the JSON document of a job, of a batch or of an object with a list of jobs in which payloads,
// outputs and errors are decoded. Without a Codec it returns the document as it is.
//
// If some contents cannot be decoded, they are null in the document, whose member "undecodable" has the reason for each: an
// object with the names payload, output and error. The error then wraps ErrUndecodable. With any other error, the document
// is nil.
func (c *Client) DecodeDocument(text []byte) ([]byte, error) {
	if c.o.Codec == nil {
		return text, nil
	}
	return c.decodeDocument(text)
}

// decodeDocument copies a JSON object, and replaces the members that are encoded. The first content that cannot be decoded
// is the error, beside the document.
func (c *Client) decodeDocument(text []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	written := map[string]bool{}
	add := func(m member) {
		if written[m.name] { // the other form of a content that was written
			return
		}
		written[m.name] = true
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(strconv.AppendQuote(out, m.name), ':')
		out = append(out, m.value...)
	}
	var first error
	reasons := map[Part]string{}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		members, err := c.decodeMember(name, value)
		if err != nil && !errors.Is(err, problem.ErrUndecodable) {
			return nil, err
		}
		if err != nil && first == nil {
			first = err
		}
		if of, is := errors.AsType[*undecodable](err); is && members == nil {
			reasons[of.part] = of.reason.Error()
			members = []member{{name, []byte("null")}}
		}
		for _, m := range members {
			add(m)
		}
	}
	if len(reasons) > 0 {
		text, err := json.Marshal(reasons, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		add(member{"undecodable", text})
	}
	out = append(out, '}')
	if bytes.HasSuffix(text, []byte{'\n'}) {
		out = append(out, '\n')
	}
	return out, first
}

type member struct {
	name  string
	value []byte
}

// decodeMember returns the members that replace a member of a document. For a content that cannot be decoded, it returns none,
// and undecodable; for a list with one, the list and the error of the first.
func (c *Client) decodeMember(name string, value jsontext.Value) ([]member, error) {
	kept := []member{{name, bytes.Clone(value)}}
	switch {
	case (name == string(PartPayload) || name == string(PartOutput)) && value.Kind() != 'n':
		data, kind, err := content(value, nil)
		if err != nil {
			return nil, err
		}
		encoded := data
		if err := c.decode(Part(name), &kind, &data); err != nil {
			return nil, err
		}
		if bytes.Equal(encoded, data) {
			return kept, nil
		}
		shown, b64, err := wireContent(kind, data)
		if b64 != nil {
			if shown, err = json.Marshal(b64); err == nil {
				return []member{{name, []byte("null")}, {name + "_b64", shown}}, nil
			}
		}
		return []member{{name, shown}}, err
	case (name == "payload_b64" || name == "output_b64") && value.Kind() == '"':
		return nil, &undecodable{Part(strings.TrimSuffix(name, "_b64")), errors.New("it is of kind bytes, and encoded ones are texts")}
	case name == "error" && value.Kind() == '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return nil, err
		}
		shown := string(text)
		if err := c.decodeError(&shown); err != nil {
			return nil, err
		}
		quoted, err := jsontext.AppendQuote(nil, shown)
		return []member{{name, quoted}}, err
	case (name == "attempts" || name == "jobs") && value.Kind() == '[':
		var list []jsontext.Value
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		var first error
		for i, one := range list {
			if one.Kind() != '{' {
				return kept, nil
			}
			text, err := c.decodeDocument(one)
			if text == nil {
				return nil, err
			}
			first = cmp.Or(first, err)
			list[i] = text
		}
		text, err := json.Marshal(list)
		return []member{{name, text}}, cmp.Or(err, first)
	}
	return kept, nil
}
