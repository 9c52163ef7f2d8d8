package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// AddOptions are where lines go and how. The zero value works.
type AddOptions struct {
	Client string
	Type   string
	Attributes

	// Key is an idempotency key: see NewKey. The bodies of Add have keys of their own that begin with it. ErrKeyReused,
	// if the input or BodyBytes differ from those of an earlier Add with the key.
	Key string
	// BodyBytes bounds one post of Add; 0 stands for 1 MiB, and 4 MiB is the most.
	BodyBytes int
	// InFlight is how many posts of Add are under way at once; 0 stands for 4.
	InFlight int
	// FlushAfter makes Add post a body that is not full once the input has been silent for so long, for streams whose
	// lines must not wait; 0: never. Where the bodies end then depends on time, so that neither Resume nor Key can
	// match them with those of another Add.
	FlushAfter time.Duration
	// StripCR makes the server remove a carriage return at the end of each line, as files from Windows have it.
	StripCR bool
	// Progress is called with how far Add came, from one goroutine at a time; Stored with each body that makes up that
	// progress, before it.
	Progress func(AddProgress)
	Stored   func(AddedBody)
	// Resume is the result of an Add of the same input, with the same BodyBytes, that ended in an error: what it stored
	// is passed over. What it left unknown is posted only with RepeatUnknown, since it may be stored then twice.
	Resume        *AddResult
	RepeatUnknown bool
}

// Added is what the server acknowledged of a post of lines.
type Added struct {
	BatchID string `json:"batch_id"`
	Count   int    `json:"count"`
	FirstID string `json:"first_id"`
	LastID  string `json:"last_id"`
	// JobIDs are spelled out for up to 1000 jobs; the ids of a batch are consecutive.
	JobIDs []string `json:"job_ids"`
	Seq    uint64   `json:"-"`
}

// AddedBody is a part of the input of Add.
type AddedBody struct {
	Offset int64 // of its first byte in the input
	Bytes  int
	Added  // zero while its fate is unknown
}

// AddProgress says how much of an input is stored without a gap.
type AddProgress struct{ Bytes, Jobs int64 }

// AddResult says what of an input is stored.
type AddResult struct {
	Bytes   int64       // from the input's beginning, stored without a gap
	Jobs    int64       // in Bodies
	Bodies  []AddedBody // stored, in order; after an error some may be after a gap
	Unknown []AddedBody // whose answers were lost
}

const (
	defaultBodyBytes = 1 << 20
	maxBodyBytes     = 4 << 20
	defaultInFlight  = 4
)

func (o *AddOptions) query() (url.Values, error) {
	q := url.Values{}
	if o.Client != "" {
		q.Set("client", o.Client)
	}
	if o.Type != "" {
		q.Set("jobtype", o.Type)
	}
	if o.StripCR {
		q.Set("strip_cr", "true")
	}
	if err := o.Attributes.setQuery(q); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return q, nil
}

// AddLines posts newline-terminated payloads in one body of at most 8 MiB: a job for each line that is not empty, all
// or none. It is answered when they are on disk. Without a key or number (see Numbered), what does not prove that
// nothing was stored is ErrUnknown, as with Create.
func (c *Client) AddLines(ctx context.Context, lines []byte, o AddOptions) (Added, error) {
	query, err := o.query()
	if err != nil {
		return Added{}, err
	}
	a, err := c.do(ctx, c.numbered(request{method: http.MethodPost, path: "/add", query: query, body: lines, contentType: mimeText,
		key: o.Key, repeat: repeatableWith(o.Key)}))
	if err != nil {
		return Added{}, err
	}
	var added Added
	if err := decode(a, &added); err != nil {
		return Added{}, err
	}
	if added.Count == 0 && len(bytes.Trim(lines, "\n")) > 0 {
		return Added{}, a.unreadable(errors.New("no jobs of lines that are not empty"))
	}
	added.Seq = a.seq
	return added, nil
}

// Add posts what it reads as newline-terminated payloads, a job for each line that is not empty, in bodies of whole
// lines, several at once. The result says how far it came, with an error as without: bodies are all or none, so that an
// Add with Resume continues from there. Errors are those of AddLines, and ErrTooLarge for a line longer than a payload
// may be.
func (c *Client) Add(ctx context.Context, r io.Reader, o AddOptions) (AddResult, error) {
	if o.BodyBytes <= 0 {
		o.BodyBytes = defaultBodyBytes
	}
	o.BodyBytes = min(o.BodyBytes, maxBodyBytes)
	if o.InFlight <= 0 {
		o.InFlight = defaultInFlight
	}
	// An error ends the reading. Posts under way go on: broken off, they would be unknown.
	reading, stop := context.WithCancel(ctx)
	defer stop()
	a := adder{c: c, o: o, posting: ctx, cancel: stop, room: make(chan struct{}, o.InFlight)}
	err := a.read(reading, bufio.NewReaderSize(r, 64<<10))
	a.posts.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		err = a.err // why the context ended, if it did
	}
	return a.result(), err
}
