package chunks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/encryption"
	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/digest"
)

// Store stores payloads and outputs that are longer than a limit as blobs of the server, and puts their addresses into
// the jobs. The server removes blobs that nothing names any more. The zero value stores payloads and
// outputs of more than 64 KiB.
//
// A job has a reference in place of a long payload, and so has the output of a job:
//
//	{"chunk_addr":"sha256:…","chunk_bytes":70000,"chunk_kind":"text"}
//
// For an output, OutputAddr has the address too. docs/reference/api.md describes references for programs in other
// languages.
type Store struct {
	// Limit is how many bytes a payload or output may have within its job. 0 means 64 KiB. It is at most 4 MiB, the
	// limit of the server.
	Limit int
	// MaxBytes bounds a chunk, which is held in memory. 0 means 64 MiB.
	MaxBytes int64
}

const (
	defaultChunkLimit    = 64 << 10
	defaultMaxChunkBytes = 64 << 20
	// chunkPuts is how many chunks of one request are stored in parallel.
	chunkPuts = 8
)

// reference replaces a chunk in a job.
type reference = client.Reference

// limit returns how long a chunk in a job may be.
func (o *Store) limit(c *client.Client) int {
	if o.Limit <= 0 {
		return defaultChunkLimit
	}
	return min(o.Limit, c.MaxContent(job.MaxPayloadBytes))
}

func (o *Store) maxBytes() int64 {
	if o.MaxBytes <= 0 {
		return defaultMaxChunkBytes
	}
	return o.MaxBytes
}

// isLong reports whether a payload or output must be stored. Content that looks like a reference is stored whatever its
// length, so that no reader takes it for a reference.
func (o *Store) isLong(c *client.Client, kind client.Kind, content []byte) bool {
	if len(content) > o.limit(c) {
		return true
	}
	_, is := client.ParseReference(kind, content)
	return is
}

// putOne stores a payload or output for a client, and returns its address and the reference to it. The blob has the text of
// the Codec, if there is one.
func (o *Store) putOne(ctx context.Context, c *client.Client, owner string, part client.Part, kind client.Kind, content []byte) (address string, ref []byte, err error) {
	kind = kind.Of(content)
	if int64(len(content)) > o.maxBytes() {
		return "", nil, fmt.Errorf("%w: a chunk has %d bytes; the maximum of Store.MaxBytes is %d", client.ErrTooLarge, len(content), o.maxBytes())
	}
	switch {
	case kind == client.Text && !utf8.Valid(content):
		return "", nil, fmt.Errorf("%w: a chunk of kind text is not valid UTF-8", client.ErrBadRequest)
	case kind == client.JSON && !jsontext.Value(content).IsValid():
		return "", nil, fmt.Errorf("%w: a chunk of kind json is not valid JSON", client.ErrBadRequest)
	case kind != client.Text && kind != client.JSON && kind != client.Bytes:
		return "", nil, fmt.Errorf("%w: a chunk cannot have the kind %q; use text, json or bytes", client.ErrBadRequest, kind)
	}
	if codec := c.Codec(); codec != nil {
		if content, err = codec.Encode(part, client.Content{Kind: kind, Data: content}, ""); err != nil {
			return "", nil, fmt.Errorf("encode a chunk: %w", err)
		}
		kind = client.Text
	}
	b, err := c.Blobs(owner).Put(ctx, bytes.NewReader(content))
	if err != nil {
		return "", nil, fmt.Errorf("store a chunk of %d bytes: %w", len(content), err)
	}
	address = b.Address
	if sum := digest.SHA256(sha256.Sum256(content)).String(); address != sum {
		return "", nil, fmt.Errorf("store a chunk of %d bytes: the server returned the address %.100q, not %s", len(content), address, sum)
	}
	n := int64(len(content))
	ref, err = json.Marshal(reference{&address, &n, &kind})
	return address, ref, err
}

// get reads the chunk of a reference.
func (o *Store) get(ctx context.Context, from *files.Blobs, ref reference) ([]byte, error) {
	content, err := o.read(ctx, from, *ref.Address, *ref.Bytes)
	if err == nil && int64(len(content)) != *ref.Bytes {
		err = fmt.Errorf("%w: it has %d bytes, not %d", client.ErrBlobDamaged, len(content), *ref.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("read chunk %s: %w", *ref.Address, err)
	}
	return content, nil
}

// read reads a chunk, and compares it with its address. size is how many bytes it should have; negative: not known.
func (o *Store) read(ctx context.Context, from *files.Blobs, address string, size int64) (content []byte, err error) {
	most := o.maxBytes()
	if size > most {
		return nil, fmt.Errorf("%w: it has %d bytes; the maximum of Store.MaxBytes is %d", client.ErrTooLarge, size, most)
	}
	in, err := from.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if size >= 0 {
		most = size
	}
	var all bytes.Buffer
	if size > 0 { // a wrong size must not cost memory
		all.Grow(int(min(size, 1<<20)) + bytes.MinRead)
	}
	n, err := io.Copy(&all, io.LimitReader(in, most+1))
	switch {
	case err != nil:
		return nil, err
	case n > most && size < 0:
		return nil, fmt.Errorf("%w: it has more than %d bytes, the maximum of Store.MaxBytes", client.ErrTooLarge, most)
	case n > most:
		return nil, fmt.Errorf("%w: it has more than %d bytes", client.ErrBlobDamaged, most)
	}
	want, err := digest.Parse(address)
	if err != nil {
		return nil, err
	}
	if sum := digest.SHA256(sha256.Sum256(all.Bytes())); want.SHA256 == nil || sum != *want.SHA256 {
		return nil, fmt.Errorf("%w: its bytes have the digest %s", client.ErrBlobDamaged, sum)
	}
	return all.Bytes(), nil
}

// Put stores the long payloads of jobs, and puts references in their place, before a create of the jobs. owner is the
// client of jobs without one.
func (o *Store) Put(ctx context.Context, c *client.Client, owner string, jobs []client.NewJob) error {
	var long []*client.NewJob
	for i := range jobs {
		if j := &jobs[i]; o.isLong(c, j.Kind, j.Payload) {
			long = append(long, j)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(chunkPuts, len(long)) {
		working.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(long)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				j := long[i]
				_, ref, err := o.putOne(ctx, c, clientOr(j.Client, owner), client.PartPayload, j.Kind, j.Payload)
				if err != nil {
					cancel(err) // the first one counts
					return
				}
				j.Payload, j.Kind = ref, client.JSON
			}
		})
	}
	working.Wait()
	return context.Cause(ctx)
}

// clientOr returns the client of a job. If the job gives none, this is the batch's client or the default one.
func clientOr(client, ofBatch string) string {
	switch {
	case client != "":
		return client
	case ofBatch != "":
		return ofBatch
	}
	return job.DefaultName
}

// loadPayload replaces the reference in a job with the chunk.
func (o *Store) loadPayload(ctx context.Context, c *client.Client, j *client.Job) error {
	ref, is := client.ParseReference(j.Kind, j.Payload)
	if !is {
		return nil
	}
	content, err := o.get(ctx, c.Blobs(j.Client), ref)
	if err == nil {
		j.Payload, j.Kind, err = decoded(c, client.PartPayload, *ref.Kind, content)
	}
	return err
}

// putOutput stores the output of an outcome if it is long, and puts a reference in its place.
func (o *Store) putOutput(ctx context.Context, c *client.Client, owner string, out *client.Outcome) error {
	if !o.isLong(c, out.OutputKind, out.Output) {
		return nil
	}
	address, ref, err := o.putOne(ctx, c, owner, client.PartOutput, out.OutputKind, out.Output)
	if err != nil {
		return err
	}
	if out.OutputAddr == "" {
		out.OutputAddr, out.OutputAddrKind = address, out.OutputKind.Of(out.Output)
		if c.Codec() != nil {
			out.OutputAddrKind = client.Text
		}
	}
	out.Output, out.OutputKind = ref, client.JSON
	return nil
}

// loadOutput replaces the reference in a result with the output. A result may have the address of a blob without a
// reference, for example from a runner of daybook work; loadOutput then reads that blob.
func (o *Store) loadOutput(ctx context.Context, c *client.Client, r *client.BatchResult) error {
	ref, is := client.ParseReference(r.OutputKind, r.Output)
	if !is {
		named, err := digest.Parse(r.OutputAddr)
		if r.OutputKind != client.None || err != nil || named.SHA256 == nil {
			return nil
		}
	}
	j, err := c.Job(ctx, r.JobID, "client")
	if err != nil {
		return fmt.Errorf("read the output of job %s: %w", r.JobID, err)
	}
	stored := c.Blobs(j.Client)
	if is {
		if r.Output, err = o.get(ctx, stored, ref); err == nil {
			r.Output, r.OutputKind, err = decoded(c, client.PartOutput, *ref.Kind, r.Output)
		}
		return err
	}
	if r.Output, err = o.read(ctx, stored, r.OutputAddr, -1); err != nil {
		return fmt.Errorf("read the output of job %s: blob %s: %w", r.JobID, r.OutputAddr, err)
	}
	r.Output, r.OutputKind, err = decoded(c, client.PartOutput, r.OutputAddrKind, r.Output)
	return err
}

// decoded returns the content that a blob has, and its kind. said is the kind that a program gave.
func decoded(c *client.Client, part client.Part, said client.Kind, blob []byte) ([]byte, client.Kind, error) {
	if c.Codec() == nil {
		// A program that runs the chunk would take the encrypted text for its content.
		if id, is := encryption.KeyOf(part, blob); is && part == client.PartPayload {
			return nil, client.None, fmt.Errorf("%w: the blob of the %s: %w: its id is %q, and the client has no Codec", client.ErrUndecodable, part, encryption.ErrNoKey, id)
		}
		return blob, trueKind(said, blob), nil
	}
	content, err := c.Codec().Decode(part, blob)
	if err != nil {
		return nil, client.None, fmt.Errorf("%w: the blob of the %s: %w", client.ErrUndecodable, part, err)
	}
	return content.Data, content.Kind, nil
}

// trueKind returns the kind that a program gave for a stored content, if the content is of that kind; otherwise it
// returns text or bytes, as the content is. The server does not check the content, and the caller may rely on the kind.
func trueKind(said client.Kind, content []byte) client.Kind {
	if said == client.JSON && !jsontext.Value(content).IsValid() || said == client.Text && !utf8.Valid(content) {
		said = client.None
	}
	return said.Of(content)
}
