package wasi

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job/digest"
)

// Blobs gives access to the server's blobs. Its methods may be called from many goroutines.
type Blobs interface {
	// Get opens a blob of a client, or a shared blob if client is "". It returns client.ErrNotFound if there is none.
	// Reading returns an error at the end if the bytes do not have the digest.
	Get(ctx context.Context, client, address string) (io.ReadCloser, error)
	// Put stores a blob of a client and returns its address. The reader is also an io.Seeker, so a failed upload can be
	// repeated.
	Put(ctx context.Context, client string, r io.Reader) (address string, err error)
}

// fetchTimeout bounds the fetch of a module. Several jobs may be waiting for it.
const fetchTimeout = 10 * time.Minute

var errNoBlobs = &refusal{"this runner has no access to blobs"}

// open opens a blob that a job or handler refers to. field is the name of the field with the address, for errors.
func (p *Pool) open(ctx context.Context, field, of, address string) (io.ReadCloser, error) {
	if p.settings.Blobs == nil {
		return nil, errNoBlobs
	}
	ref, err := digest.Parse(address)
	if err != nil {
		return nil, refuse("%s: %v", field, err)
	}
	r, err := p.settings.Blobs.Get(ctx, of, ref.String())
	switch {
	case errors.Is(err, client.ErrNotFound):
		return nil, refuse("%s: there is no blob %s; store it before the job is created", field, address)
	case err != nil:
		return nil, blobError(fmt.Sprintf("%s: read blob %s", field, address), err)
	}
	return r, nil
}

// blobError wraps an error of Blobs. It returns an awayError if the error may pass.
func blobError(doing string, err error) error {
	err = fmt.Errorf("%s: %w", doing, err)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusInsufficientStorage {
		return err // a full quota or disk does not pass soon: count the run
	}
	for _, passing := range []error{client.ErrUnavailable, client.ErrOverloaded, client.ErrUnknown, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, passing) {
			return &awayError{err}
		}
	}
	return err
}

// fetched identifies a module that a client may run.
type fetched struct{ client, ref string }

// maxFetched bounds the number of remembered addresses.
const maxFetched = 10_000

// fetch puts a module into the cache, and returns the hex digits of its SHA-256. The first time that a client uses an
// address, fetch opens the blob even if the module is cached, to check that this client may read it.
func (p *Pool) fetch(ctx context.Context, field, of, address string) (digits string, err error) {
	ref, err := digest.Parse(address)
	if err != nil {
		return "", refuse("%s: %v", field, err)
	}
	who := fetched{of, ref.String()}
	p.fetchedMu.Lock()
	digits = p.fetched[who]
	tooLarge := p.tooLarge[who]
	p.fetchedMu.Unlock()
	if tooLarge {
		return "", refuse("%s: blob %s: %v", field, address, errTooLarge)
	}
	if digits != "" && p.cache.has(p.cache.module(digits)) {
		return digits, nil
	}
	value, err := p.once(ctx, "fetch "+who.client+" "+who.ref, func() (any, error) {
		fetching, cancel := context.WithTimeout(p.life, fetchTimeout)
		defer cancel()
		return p.fetchNow(fetching, field, of, address, ref)
	})
	p.fetchedMu.Lock()
	defer p.fetchedMu.Unlock()
	switch {
	case errors.Is(err, errTooLarge): // this does not change: do not fetch the blob for each job
		if len(p.tooLarge) >= maxFetched {
			clear(p.tooLarge)
		}
		p.tooLarge[who] = true
		return "", refuse("%s: blob %s: %v", field, address, errTooLarge)
	case err != nil:
		return "", err
	}
	digits = value.(string)
	if len(p.fetched) >= maxFetched {
		clear(p.fetched)
	}
	p.fetched[who] = digits
	return digits, nil
}

func (p *Pool) fetchNow(ctx context.Context, field, of, address string, ref digest.Ref) (string, error) {
	r, err := p.open(ctx, field, of, address)
	if err != nil {
		return "", err
	}
	defer r.Close()
	if ref.SHA256 != nil {
		if digits := hex.EncodeToString(ref.SHA256[:]); p.cache.has(p.cache.module(digits)) {
			return digits, nil
		}
	}
	digits, err := p.cache.add(r, ref)
	if errors.Is(err, errTooLarge) {
		return "", err
	}
	if err != nil {
		return "", blobError(fmt.Sprintf("%s: read blob %s", field, address), err)
	}
	return digits, nil
}

// load puts a module from a local file into the cache.
func (p *Pool) load(path string) (digits string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", path)
	}
	digits, err = p.cache.add(f, digest.Ref{})
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return digits, nil
}

// once calls do, or waits for the result of a running call with the same key. The call continues after ctx ends, because
// other goroutines may wait for it.
func (p *Pool) once(ctx context.Context, key string, do func() (any, error)) (any, error) {
	select {
	case r := <-p.flights.DoChan(key, func() (any, error) {
		p.background.Add(1)
		defer p.background.Done()
		return do()
	}):
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, errStopped
	}
}
