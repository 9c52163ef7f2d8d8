package client

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/job/runs"
)

// claimHead is the part of the answer to a claim that all its jobs share.
type claimHead struct {
	ID       string         `json:"claim_id"`
	LeaseMs  int64          `json:"lease_ms"`
	Handlers []ClaimHandler `json:"handlers"`
}

var errNoID = errors.New("a job without an id")

// decodeClaim reads the answer to a claim: runs, or from a server without runs a line with the head and one line per
// job, or one JSON document. The payloads may share memory with the answer.
func decodeClaim(a transport.Answer) (*Claim, error) {
	c := &Claim{Received: a.At, Replayed: a.Replayed}
	if a.MediaType == runs.MediaType {
		if err := c.readRuns(a.Body); err != nil {
			return nil, a.Unreadable(err)
		}
		return c, nil
	}
	if a.MediaType != transport.MimeNDJSON {
		var doc struct {
			claimHead
			Jobs []jobDocument `json:"jobs"`
		}
		if err := transport.Decode(a, &doc); err != nil {
			return nil, err
		}
		jobs, err := jobsOf(a, doc.Jobs)
		if err == nil && slices.ContainsFunc(jobs, func(j *Job) bool { return j.ID == "" }) {
			err = a.Unreadable(errNoID)
		}
		c.ID, c.LeaseMs, c.Handlers, c.Jobs = doc.ID, doc.LeaseMs, doc.Handlers, jobs
		return c, err
	}
	line, rest, _ := bytes.Cut(a.Body, []byte("\n"))
	var head claimHead
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, a.Unreadable(err)
	}
	c.ID, c.LeaseMs, c.Handlers = head.ID, head.LeaseMs, head.Handlers
	jobs := make([]Job, bytes.Count(rest, []byte("\n")))
	c.Jobs = make([]*Job, len(jobs))
	var like likeJob
	for i := range jobs {
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if !like.read(&jobs[i], line) {
			if err := readJob(&jobs[i], line); err != nil {
				return nil, a.Unreadable(fmt.Errorf("job %d: %w", i, err))
			}
			if i < len(jobs)-1 {
				like.learn(&jobs[i], line)
			}
		}
		c.Jobs[i] = &jobs[i]
	}
	if len(rest) > 0 { // the connection was closed in the middle of a job
		return nil, a.Unreadable(fmt.Errorf("the answer ends in the middle of job %d", len(jobs)))
	}
	return c, nil
}

// likeJob reads documents that differ from an earlier one only in id and payload. Most jobs of a claim do. Comparing
// the text takes much less time than parsing the 37 fields again.
type likeJob struct {
	job        Job
	head, tail []byte // the text between the id and the value of the payload, and the text after that value
}

const (
	jobPrefix   = `{"job_id":"`
	idBytes     = 36
	payloadName = "payload"
)

// readJob reads a document in full.
func readJob(j *Job, line []byte) error {
	var d jobDocument
	if err := json.Unmarshal(line, &d); err != nil {
		return err
	}
	full, err := d.job()
	if err != nil {
		return err
	}
	if full.ID == "" {
		return errNoID
	}
	*j = *full
	return nil
}

// learn makes read compare the next documents with the document of j, whose text is line.
func (l *likeJob) learn(j *Job, line []byte) {
	l.head, l.tail = nil, nil
	// Two jobs must not share memory that a caller may change, so documents with one of these fields are parsed in
	// full. Payloads that are neither a text nor JSON are parsed in full too, since other fields depend on their kind.
	if j.Kind != Text && j.Kind != JSON || j.OutputKind != None || len(j.Attempts) > 0 || j.Progress != nil || j.ProcessExit != nil {
		return
	}
	from, to := payloadIn(line)
	if idEnd := len(jobPrefix) + idBytes; from > idEnd && bytes.HasPrefix(line, []byte(jobPrefix)) && line[idEnd] == '"' {
		l.job, l.head, l.tail = *j, line[idEnd:from], line[to:]
	}
}

// payloadIn returns where the value of the payload begins and ends in the document of a job, which must be well-formed.
// It returns zeros if there is no payload.
func payloadIn(line []byte) (from, to int) {
	d := jsontext.NewDecoder(bytes.NewBuffer(line))
	if _, err := d.ReadToken(); err != nil {
		return 0, 0
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return 0, 0
		}
		found := name.String() == payloadName
		value, err := d.ReadValue()
		if err != nil {
			return 0, 0
		}
		if found {
			end := int(d.InputOffset())
			return end - len(value), end
		}
	}
	return 0, 0
}

// read reads a document if it differs from the learned one only in id and payload. Otherwise it returns false.
func (l *likeJob) read(j *Job, line []byte) bool {
	from, to := len(jobPrefix)+idBytes+len(l.head), len(line)-len(l.tail)
	if l.head == nil || to <= from || string(line[:len(jobPrefix)]) != jobPrefix ||
		!bytes.Equal(line[len(jobPrefix)+idBytes:from], l.head) || !bytes.Equal(line[to:], l.tail) {
		return false
	}
	id, value := line[len(jobPrefix):len(jobPrefix)+idBytes], line[from:to:to]
	if !isID(id) {
		return false
	}
	payload, kind := value, JSON
	if value[0] == '"' {
		kind = Text
		var ok bool
		if payload, ok = unquote(value); !ok {
			return false
		}
	} else if value[0] == 'n' || !jsontext.Value(value).IsValid() {
		return false
	}
	*j = l.job
	j.ID, j.Payload, j.Kind, j.Meta = string(id), payload, kind, maps.Clone(l.job.Meta)
	return true
}

func isID(text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && c != '-' {
			return false
		}
	}
	return true
}

// unquote returns the text of a JSON string. A text without escapes shares memory with the string.
func unquote(value []byte) (text []byte, ok bool) {
	if len(value) < 2 || value[len(value)-1] != '"' {
		return nil, false
	}
	text = value[1 : len(value)-1 : len(value)-1]
	for _, c := range text {
		if c == '\\' || c == '"' || c < ' ' {
			text, err := jsontext.AppendUnquote(nil, value)
			return text, err == nil
		}
	}
	return text, utf8.Valid(text)
}
