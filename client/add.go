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
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
)

// AddOptions select the queue to which lines are added, and how Add posts them. The zero value works.
type AddOptions struct {
	Client string
	Type   string
	Attributes

	// Key is an idempotency key: see NewKey. Add derives a key for each body, which begins with Key. Add returns
	// ErrKeyReused if the input or BodyBytes differ from an earlier Add with the same Key.
	Key string
	// BodyBytes bounds the body of one post of Add. 0 means 1 MiB; the maximum is 4 MiB.
	BodyBytes int
	// InFlight is how many posts Add sends at the same time. 0 means 4.
	InFlight int
	// FlushAfter is for inputs whose lines must not wait: when the input has been silent for this long, Add posts the
	// body that it has, although it is not full. 0 means never. The bodies then depend on time, so neither Resume nor
	// Key can match them with the bodies of another Add.
	FlushAfter time.Duration
	// Kind is the kind of the payloads: Text, which is the default, or JSON. With JSON each line that is not empty must
	// be one JSON value, and becomes the payload as `POST /jobs/create` reads it: a string becomes a payload of kind
	// text, and null means no payload. StripCR must not be set then.
	Kind Kind
	// StripCR makes the server remove a carriage return at the end of each line, for files from Windows.
	StripCR bool
	// Progress is called when more of the input is stored without a gap. Stored is called before it, once for each body
	// of this part of the input. Only one of these calls runs at a time.
	Progress func(AddProgress)
	Stored   func(AddedBody)
	// Body is called with each body in order, before Add posts it or finds it in Resume. If it returns an error, Add
	// does not post the body and returns. Acknowledged is called when a body is stored, in any order and by several
	// goroutines at a time. It is not called for the bodies of Resume. If a program may be killed, it should record
	// both calls. It can then make the Resume of a later Add from its records.
	Body         func(b AddedBody, lines []byte) error
	Acknowledged func(AddedBody)
	// DryRun makes Add post nothing. Add acts as if the server had stored each body, without ids.
	DryRun bool
	// Resume is the result of an earlier Add that returned an error. The input and BodyBytes must be the same. Add
	// skips the bodies that the earlier Add stored. It posts bodies whose result is unknown again only if RepeatUnknown
	// is set, because the server may then store them twice.
	Resume        *AddResult
	RepeatUnknown bool
}

// Added is the server's answer to a post of lines.
type Added struct {
	BatchID string `json:"batch_id"`
	Count   int    `json:"count"`
	FirstID string `json:"first_id"`
	LastID  string `json:"last_id"`
	// JobIDs lists the ids of up to 1000 jobs. The ids of a batch are consecutive.
	JobIDs []string `json:"job_ids"`
	Seq    uint64   `json:"-"`
}

// AddedBody is a part of the input of Add.
type AddedBody struct {
	Offset int64 // of the first byte in the input
	Bytes  int
	Added  // zero while it is unknown whether the body is stored
}

// AddProgress is how much of an input is stored without a gap.
type AddProgress struct{ Bytes, Jobs int64 }

// AddResult says which parts of an input are stored.
type AddResult struct {
	Bytes   int64       // stored from the beginning of the input without a gap
	Jobs    int64       // in all Bodies
	Bodies  []AddedBody // stored, in order; after an error there may be gaps between them
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
		return nil, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	return q, nil
}

// AddLines posts newline-terminated payloads in one body of at most 8 MiB. Each line that is not empty becomes a job.
// The server stores all of them or none, and answers when they are on disk. Without a key or number (see Numbered),
// AddLines returns ErrUnknown if it is not proven that nothing was stored, as Create does. With Options.Codec, the limit
// holds for the encoded lines.
func (c *Client) AddLines(ctx context.Context, lines []byte, o AddOptions) (Added, error) {
	if o.Kind == JSON {
		return c.addValues(ctx, lines, o)
	}
	if o.Kind != Text && o.Kind != "" {
		return Added{}, fmt.Errorf("%w: lines of the kind %q cannot be added; use text or json", problem.ErrBadRequest, o.Kind)
	}
	query, err := o.query()
	if err != nil {
		return Added{}, err
	}
	if c.o.Codec != nil {
		if lines, err = c.encodedLines(lines, &o); err != nil {
			return Added{}, err
		}
		query.Del("strip_cr") // the lines that the server gets have no carriage returns
	}
	r := transport.Request{Method: http.MethodPost, Path: "/add", Query: query, Body: lines, ContentType: transport.MimeText}
	return c.add(ctx, r, o.Key, func(counted int) error {
		if counted == 0 && len(bytes.Trim(lines, "\n")) > 0 {
			return errors.New("the answer counts no jobs, and the body had lines that are not empty")
		}
		return nil
	})
}

// add sends a body of jobs. check returns an error if the answer counts another number of jobs than the body has.
func (c *Client) add(ctx context.Context, r transport.Request, key string, check func(counted int) error) (added Added, err error) {
	r.Key, r.Repeat = key, transport.RepeatableWith(key)
	a, err := c.conn.Do(ctx, c.numbered(c.inTrace(ctx, r)))
	if err != nil {
		return added, err
	}
	if err := transport.Decode(a, &added); err != nil {
		return Added{}, err
	}
	if err := check(added.Count); err != nil {
		return Added{}, a.Unreadable(err)
	}
	added.Seq = a.Seq
	return added, nil
}

// valueHead returns the beginning of the JSON object of a job whose payload is a JSON value.
func (o *AddOptions) valueHead() ([]byte, error) {
	if o.StripCR {
		return nil, fmt.Errorf("%w: StripCR is for lines of text", problem.ErrBadRequest)
	}
	head, err := json.Marshal(NewJob{Client: o.Client, Type: o.Type, Attributes: o.Attributes})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	if head = head[:len(head)-1]; len(head) > 1 {
		head = append(head, ',')
	}
	return append(head, `"payload":`...), nil
}

// addValues posts lines that are JSON values.
func (c *Client) addValues(ctx context.Context, lines []byte, o AddOptions) (Added, error) {
	head, err := o.valueHead()
	if err != nil {
		return Added{}, err
	}
	body := make([]byte, 0, len(lines)+(len(head)+1)*(bytes.Count(lines, []byte{'\n'})+1))
	count, repeat := 0, c.repeatOf(o.Key)
	for line := range bytes.Lines(lines) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !jsontext.Value(line).IsValid() { // otherwise the line could end the object, and set other attributes of the job
			return Added{}, fmt.Errorf("%w: a line is not a JSON value: %.100q", problem.ErrBadRequest, line)
		}
		value, err := c.encodedValue(line, within(repeat, strconv.Itoa(count)))
		if err != nil {
			return Added{}, err
		}
		body = append(append(append(body, head...), value...), "}\n"...)
		count++
	}
	if count == 0 {
		return Added{}, nil
	}
	r := transport.Request{Method: http.MethodPost, Path: "/jobs/create", Body: body, ContentType: transport.MimeNDJSON}
	return c.add(ctx, r, o.Key, func(counted int) error {
		if counted != count {
			return fmt.Errorf("the answer counts %d jobs, and the body had %d", counted, count)
		}
		return nil
	})
}

// Add splits the input into bodies of whole lines, and posts several bodies at the same time. Each line that is not
// empty becomes a job. The server stores a body as a whole or not at all. The result reports how much is stored, even
// if Add returns an error, so that another Add with Resume can continue from there. Add returns the errors of AddLines,
// and ErrTooLarge if a line is longer than a payload may be.
func (c *Client) Add(ctx context.Context, r io.Reader, o AddOptions) (AddResult, error) {
	if o.BodyBytes <= 0 {
		o.BodyBytes = defaultBodyBytes
	}
	o.BodyBytes = min(o.BodyBytes, maxBodyBytes)
	if o.InFlight <= 0 {
		o.InFlight = defaultInFlight
	}
	perLine := 0
	if o.Kind == JSON {
		head, err := o.valueHead()
		if err != nil {
			return AddResult{}, err
		}
		perLine = len(head) + 1
	}
	// After an error nothing more is read. Posts in progress continue: if they were aborted, their results would be
	// unknown.
	reading, stop := context.WithCancel(ctx)
	defer stop()
	a := adder{c: c, o: o, sizeOf: c.lineSizes(perLine, o.Kind), posting: ctx, cancel: stop, room: make(chan struct{}, o.InFlight)}
	err := a.read(reading, bufio.NewReaderSize(r, 64<<10))
	a.posts.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		err = a.err // the reason why reading was cancelled
	}
	return a.result(), err
}
