package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
)

// adder is an Add in progress.
type adder struct {
	c       *Client
	o       AddOptions
	sizeOf  func(line int) int // how long a line of so many bytes is in its post, at most
	posting context.Context
	cancel  context.CancelFunc // stops the reading
	room    chan struct{}      // holds one element for each post in progress
	posts   sync.WaitGroup

	mu     sync.Mutex  // guards the fields below
	bodies []*bodyPost // in order
	shown  int         // how many of bodies were passed to Stored
	sofar  AddProgress // the last argument of Progress
	err    error       // the first one
}

type bodyPost struct {
	AddedBody
	stored bool
	// unknown stays set if a second post of the body is refused: the refusal says nothing about the first post.
	unknown bool
}

// errSilence means that the input was silent for FlushAfter.
var errSilence = errors.New("the input is silent")

// read splits the input into bodies and posts them. Without FlushAfter, the bodies depend only on the input and
// BodyBytes.
func (a *adder) read(ctx context.Context, in *bufio.Reader) error {
	var body []byte
	offset, line, size := int64(0), 0, 0 // size is the size of the post
	flush := func() error {
		if len(body) == 0 {
			return nil
		}
		err := a.post(ctx, offset, body)
		offset += int64(len(body))
		body, size = nil, 0
		return err
	}
	next := func(time.Duration) ([]byte, error) { return readLine(in) }
	if a.o.FlushAfter > 0 {
		next = lines(ctx, in)
	}
	for {
		patience := time.Duration(0)
		if len(body) > 0 {
			patience = a.o.FlushAfter
		}
		text, err := next(patience)
		if err == errSilence {
			if err := flush(); err != nil {
				return err
			}
			continue
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("line %d: %w", line+1, err)
		}
		if most := a.c.MaxContent(job.MaxPayloadBytes); len(bytes.TrimSuffix(text, []byte("\n"))) > most {
			return fmt.Errorf("line %d: %w: the line is longer than %d bytes, the limit of an encoded payload", line+1, problem.ErrTooLarge, most)
		}
		if line++; size+a.sizeOf(len(text)) > a.o.BodyBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		body = append(body, text...)
		size += a.sizeOf(len(text))
		if err == io.EOF {
			return flush()
		}
	}
}

// lines reads ahead in a goroutine, so that the caller notices a silent input. The returned function returns the next
// line, or errSilence if none arrives within patience; 0 means that it waits for ever. The goroutine ends with the
// input, or with the first line that it reads after ctx has ended.
func lines(ctx context.Context, in *bufio.Reader) func(patience time.Duration) ([]byte, error) {
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
	return func(patience time.Duration) ([]byte, error) {
		select {
		case l := <-ahead:
			return l.text, l.err
		default:
		}
		var silence <-chan time.Time
		if patience > 0 {
			silence = time.After(patience)
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

// readLine returns the next line with its newline. With the last line it returns io.EOF.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(bytes.TrimSuffix(line, []byte("\n"))) > job.MaxPayloadBytes {
			return nil, fmt.Errorf("%w: the line is longer than %d bytes, the limit of a payload", problem.ErrTooLarge, job.MaxPayloadBytes)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// post posts a body in the background, as soon as there is room. It skips a body that an earlier Add has stored.
func (a *adder) post(ctx context.Context, offset int64, body []byte) error {
	b := &bodyPost{AddedBody: AddedBody{Offset: offset, Bytes: len(body)}}
	if a.o.Resume != nil && a.o.Resume.overlaps(b) {
		return fmt.Errorf("%w: bytes %d to %d of the input are not a body of the earlier Add: the input or BodyBytes has changed", problem.ErrBadRequest,
			b.Offset, b.Offset+int64(b.Bytes))
	}
	b.unknown = a.o.Resume != nil && findBody(a.o.Resume.Unknown, b) != nil
	if a.o.Body != nil {
		if err := a.o.Body(b.AddedBody, body); err != nil {
			return err
		}
	}
	a.mu.Lock()
	a.bodies = append(a.bodies, b)
	a.mu.Unlock()
	if a.o.Resume != nil {
		if stored := findBody(a.o.Resume.Bodies, b); stored != nil {
			a.finish(b, stored.Added, nil)
			return nil
		}
		if b.unknown && !a.o.RepeatUnknown {
			err := fmt.Errorf("body at byte %d: %w; to post it again, which may store it twice, set RepeatUnknown", offset, problem.ErrUnknown)
			a.finish(b, Added{}, err)
			return err
		}
	}
	if a.o.DryRun {
		a.finish(b, Added{Count: a.linesIn(body)}, nil)
		return nil
	}
	select {
	case a.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	a.posts.Go(func() {
		o := a.o
		if o.Key != "" {
			o.Key = fmt.Sprintf("%s/%d", o.Key, offset) // without the length: the server must refuse a body that has changed
		}
		added, err := a.c.AddLines(a.posting, body, o)
		if err == nil && o.Acknowledged != nil {
			o.Acknowledged(AddedBody{b.Offset, b.Bytes, added})
		}
		a.finish(b, added, err)
		<-a.room
	})
	return nil
}

// linesIn counts the lines that are not empty.
func (a *adder) linesIn(body []byte) (n int) {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSuffix(line, []byte{'\n'}); a.o.Kind == JSON {
			line = bytes.TrimSpace(line)
		}
		if len(line) > 0 {
			n++
		}
	}
	return n
}

// overlaps reports whether b shares bytes with a body of r without being the same body. Posting b would store lines
// twice.
func (r *AddResult) overlaps(b *bodyPost) bool {
	end := b.Offset + int64(b.Bytes)
	for _, bodies := range [][]AddedBody{r.Bodies, r.Unknown} {
		// The first body that ends after b begins. The bodies are in order.
		i := sort.Search(len(bodies), func(i int) bool { return bodies[i].Offset+int64(bodies[i].Bytes) > b.Offset })
		if i < len(bodies) && bodies[i].Offset < end && (bodies[i].Offset != b.Offset || bodies[i].Bytes != b.Bytes) {
			return true
		}
	}
	return false
}

// findBody returns the body with the offset and length of b, or nil. The bodies are in order.
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
	b.Added, b.stored, b.unknown = added, err == nil, err != nil && (b.unknown || errors.Is(err, problem.ErrUnknown))
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("body at byte %d: %w", b.Offset, err)
		a.cancel()
	}
	before := a.shown
	for ; a.shown < len(a.bodies) && a.bodies[a.shown].stored; a.shown++ {
		done := a.bodies[a.shown]
		a.sofar.Bytes = done.Offset + int64(done.Bytes)
		a.sofar.Jobs += int64(done.Count)
		if a.o.Stored != nil {
			a.o.Stored(done.AddedBody)
		}
	}
	if a.shown > before && a.o.Progress != nil {
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
	// Bodies of the earlier Add that this Add did not reach are still stored or unknown.
	end := int64(0)
	if n := len(a.bodies); n > 0 {
		end = a.bodies[n-1].Offset + int64(a.bodies[n-1].Bytes)
	}
	for _, b := range a.o.Resume.Bodies {
		if b.Offset >= end {
			if b.Offset == r.Bytes { // there is no gap before it
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
