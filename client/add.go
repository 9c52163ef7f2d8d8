package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
)

// AddOptions are where lines go and how. The zero value works.
type AddOptions struct {
	Client string
	Type   string
	Attributes

	// Key is an idempotency key: see NewKey. The bodies of Add have keys of their own that begin with it. ErrKeyReused, if the input or
	// BodyBytes differ from those of an earlier Add with the key.
	Key string
	// BodyBytes bounds one post of Add; 0 stands for 1 MiB, and 4 MiB is the most.
	BodyBytes int
	// InFlight is how many posts of Add are under way at once; 0 stands for 4.
	InFlight int
	// FlushAfter makes Add post a body that is not full once the input has been silent for so long, for streams whose lines must not wait;
	// 0: never. Where the bodies end then depends on time, so that neither Resume nor Key can match them with those of another Add.
	FlushAfter time.Duration
	// StripCR makes the server remove a carriage return at the end of each line, as files from Windows have it.
	StripCR bool
	// Progress is called with how far Add came, from one goroutine at a time; Stored with each body that makes up that progress, before it.
	Progress func(AddProgress)
	Stored   func(AddedBody)
	// Resume is the result of an Add of the same input, with the same BodyBytes, that ended in an error: what it stored is passed
	// over. What it left unknown is posted only with RepeatUnknown, since it may be stored then twice.
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
	Bodies  []AddedBody // stored, in order; after an error some may lie behind a gap
	Unknown []AddedBody // whose answers were lost
}

const (
	defaultBodyBytes = 1 << 20
	maxBodyBytes     = 4 << 20
	defaultInFlight  = 4
)

func (o *AddOptions) query() url.Values {
	q := url.Values{}
	text := func(key, value string) {
		if value != "" {
			q.Set(key, value)
		}
	}
	number := func(key string, n int64) {
		if n != 0 {
			q.Set(key, strconv.FormatInt(n, 10))
		}
	}
	optional := func(key string, n *int64) {
		if n != nil {
			q.Set(key, strconv.FormatInt(*n, 10))
		}
	}
	text("client", o.Client)
	text("jobtype", o.Type)
	number("run_at", o.RunAt)
	number("delay_ms", o.DelayMs)
	if o.Priority != nil {
		q.Set("priority", strconv.Itoa(*o.Priority))
	}
	number("max_attempts", int64(o.MaxAttempts))
	if b := o.Backoff; b != nil {
		optional("backoff_initial_ms", b.InitialMs)
		optional("backoff_factor_milli", b.FactorMilli)
		optional("backoff_max_ms", b.MaxMs)
	}
	number("lease_ms", o.LeaseMs)
	optional("retention_ms", o.RetentionMs)
	number("expires_at", o.ExpiresAt)
	number("timeout_ms", o.TimeoutMs)
	text("traceparent", o.Traceparent)
	if o.StripCR {
		q.Set("strip_cr", "true")
	}
	for name, value := range o.Meta {
		q.Set("meta."+name, value)
	}
	return q
}

// AddLines posts newline-terminated payloads in one body of at most 8 MiB: a job for each line that is not empty, all or none. It is
// answered when they are on disk. Without a key or number (see Numbered), what does not prove that nothing was stored is ErrUnknown, as with Create.
func (c *Client) AddLines(ctx context.Context, lines []byte, o AddOptions) (Added, error) {
	a, err := c.do(ctx, c.numbered(request{method: http.MethodPost, path: "/add", query: o.query(), body: lines, contentType: mimeText,
		key: o.Key, repeatable: o.Key != ""}))
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

// Add posts what it reads as newline-terminated payloads, a job for each line that is not empty, in bodies of whole lines, several at once.
// The result says how far it came, with an error as without: bodies are all or none, so that an Add with Resume goes on from there.
// Errors are those of AddLines, and ErrTooLarge for a line longer than a payload may be.
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

// adder is an Add under way.
type adder struct {
	c       *Client
	o       AddOptions
	posting context.Context
	cancel  context.CancelFunc // of the reading
	room    chan struct{}
	posts   sync.WaitGroup

	mu     sync.Mutex
	bodies []*bodyPost // in order
	told   int         // of bodies, those that Progress has heard of
	sofar  AddProgress // what it has heard
	err    error       // the first
}

type bodyPost struct {
	AddedBody
	stored bool
	// unknown stays: that a body was not stored when it was posted again says nothing about the first time.
	unknown bool
}

// errSilence is returned by next when the input has been silent for FlushAfter.
var errSilence = errors.New("no line came for a while")

// read cuts the input into bodies and posts them. Without FlushAfter, where they are cut depends on the input and BodyBytes alone.
func (a *adder) read(ctx context.Context, in *bufio.Reader) error {
	var body []byte
	offset, line := int64(0), 0
	flush := func() error {
		if len(body) == 0 {
			return nil
		}
		err := a.post(ctx, offset, body)
		offset += int64(len(body))
		body = nil
		return err
	}
	next := func(bool) ([]byte, error) { return readLine(in) }
	if a.o.FlushAfter > 0 {
		next = a.lines(ctx, in)
	}
	for {
		text, err := next(len(body) > 0)
		if err == errSilence {
			if err := flush(); err != nil {
				return err
			}
			continue
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("line %d: %w", line+1, err)
		}
		if line++; len(body)+len(text) > a.o.BodyBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		body = append(body, text...)
		if err == io.EOF {
			return flush()
		}
	}
}

// lines reads ahead in a goroutine, so that a silent input can be noticed. The function that it returns gives the next line, or errSilence
// when it was asked to watch and none came within FlushAfter. The goroutine ends with the input, or with the first line after ctx is done.
func (a *adder) lines(ctx context.Context, in *bufio.Reader) func(watch bool) ([]byte, error) {
	type line struct {
		text []byte
		err  error
	}
	ahead := make(chan line, 256)
	go func() {
		for {
			text, err := readLine(in)
			select {
			case ahead <- line{text, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return func(watch bool) ([]byte, error) {
		select {
		case l := <-ahead:
			return l.text, l.err
		default:
		}
		var silence <-chan time.Time
		if watch {
			silence = time.After(a.o.FlushAfter)
		}
		select {
		case l := <-ahead:
			return l.text, l.err
		case <-silence:
			return nil, errSilence
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// readLine returns the next line with its newline, and io.EOF with the last.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(bytes.TrimSuffix(line, []byte("\n"))) > job.MaxPayloadBytes {
			return nil, fmt.Errorf("%w: a payload has at most %d bytes", ErrTooLarge, job.MaxPayloadBytes)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// post posts a body in the background, when there is room; unless an earlier Add is known to have stored it.
func (a *adder) post(ctx context.Context, offset int64, body []byte) error {
	b := &bodyPost{AddedBody: AddedBody{Offset: offset, Bytes: len(body)}}
	if a.o.Resume != nil && a.o.Resume.cutsAcross(b) {
		return fmt.Errorf("%w: bytes %d to %d are not what was posted before: the input or BodyBytes has changed", ErrBadRequest,
			b.Offset, b.Offset+int64(b.Bytes))
	}
	b.unknown = a.o.Resume != nil && findBody(a.o.Resume.Unknown, b) != nil
	a.mu.Lock()
	a.bodies = append(a.bodies, b)
	a.mu.Unlock()
	if a.o.Resume != nil {
		if stored := findBody(a.o.Resume.Bodies, b); stored != nil {
			a.finish(b, stored.Added, nil)
			return nil
		}
		if b.unknown && !a.o.RepeatUnknown {
			err := fmt.Errorf("body at byte %d: %w; posting it again may store it twice", offset, ErrUnknown)
			a.finish(b, Added{}, err)
			return err
		}
	}
	select {
	case a.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	a.posts.Go(func() {
		o := a.o
		if o.Key != "" {
			o.Key = fmt.Sprintf("%s/%d", o.Key, offset) // not of its length: a changed body must be refused as another request
		}
		added, err := a.c.AddLines(a.posting, body, o)
		a.finish(b, added, err)
		<-a.room
	})
	return nil
}

// cutsAcross reports whether b shares bytes with a body of r without being the same: to post it would store lines twice.
func (r *AddResult) cutsAcross(b *bodyPost) bool {
	end := b.Offset + int64(b.Bytes)
	for _, bodies := range [][]AddedBody{r.Bodies, r.Unknown} {
		// The first body that ends behind the beginning of b; they are in order.
		i := sort.Search(len(bodies), func(i int) bool { return bodies[i].Offset+int64(bodies[i].Bytes) > b.Offset })
		if i < len(bodies) && bodies[i].Offset < end && (bodies[i].Offset != b.Offset || bodies[i].Bytes != b.Bytes) {
			return true
		}
	}
	return false
}

// findBody finds a body among some that are in order.
func findBody(bodies []AddedBody, b *bodyPost) *AddedBody {
	i, found := slices.BinarySearchFunc(bodies, b.Offset, func(have AddedBody, offset int64) int { return cmp.Compare(have.Offset, offset) })
	if !found || bodies[i].Bytes != b.Bytes {
		return nil
	}
	return &bodies[i]
}

func (a *adder) finish(b *bodyPost, added Added, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.Added, b.stored, b.unknown = added, err == nil, err != nil && (b.unknown || errors.Is(err, ErrUnknown))
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("body at byte %d: %w", b.Offset, err)
		a.cancel()
	}
	before := a.told
	for ; a.told < len(a.bodies) && a.bodies[a.told].stored; a.told++ {
		done := a.bodies[a.told]
		a.sofar.Bytes = done.Offset + int64(done.Bytes)
		a.sofar.Jobs += int64(done.Count)
		if a.o.Stored != nil {
			a.o.Stored(done.AddedBody)
		}
	}
	if a.told > before && a.o.Progress != nil {
		a.o.Progress(a.sofar)
	}
}

func (a *adder) result() (r AddResult) {
	gap := false
	for _, b := range a.bodies {
		switch {
		case b.stored:
			r.Bodies = append(r.Bodies, b.AddedBody)
			r.Jobs += int64(b.Count)
			if !gap {
				r.Bytes = b.Offset + int64(b.Bytes)
			}
		case b.unknown:
			r.Unknown = append(r.Unknown, b.AddedBody)
			gap = true
		default:
			gap = true
		}
	}
	if a.o.Resume == nil {
		return r
	}
	// What an earlier Add knew of bodies that this one did not come to holds still.
	end := int64(0)
	if n := len(a.bodies); n > 0 {
		end = a.bodies[n-1].Offset + int64(a.bodies[n-1].Bytes)
	}
	for _, b := range a.o.Resume.Bodies {
		if b.Offset >= end {
			if b.Offset == r.Bytes { // no gap before it
				r.Bytes += int64(b.Bytes)
			}
			r.Bodies = append(r.Bodies, b)
			r.Jobs += int64(b.Count)
		}
	}
	for _, b := range a.o.Resume.Unknown {
		if b.Offset >= end {
			r.Unknown = append(r.Unknown, b)
		}
	}
	return r
}
