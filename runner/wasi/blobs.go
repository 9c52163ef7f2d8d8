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

// Blobs are the blobs of the server. Its methods may be called from many goroutines.
type Blobs interface {
	// Get opens a blob of a client, or a shared one with "". The error is client.ErrNotFound if there is none. Reading fails
	// at the end if the bytes have another digest.
	Get(ctx context.Context, client, address string) (io.ReadCloser, error)
	// Put stores a blob of a client, and returns its address. The reader is an io.Seeker, too: an upload that fails can be
	// repeated.
	Put(ctx context.Context, client string, r io.Reader) (address string, err error)
}

// fetchTimeout bounds how long a module is fetched. Several jobs may wait for it.
const fetchTimeout = 10 * time.Minute

var errNoBlobs = &refusal{"this runner has no access to blobs"}

// open opens a blob that a job or handler names. field is where it is named.
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

// blobError wraps an error of blobs.
func blobError(doing string, err error) error {
	err = fmt.Errorf("%s: %w", doing, err)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusInsufficientStorage {
		return err // a quota or a disk that is full stays full: the run counts
	}
	for _, passing := range []error{client.ErrUnavailable, client.ErrOverloaded, client.ErrUnknown, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, passing) {
			return &awayError{err}
		}
	}
	return err
}

// fetched is a module that a client may run.
type fetched struct{ client, ref string }

// maxFetched bounds the addresses that are remembered.
const maxFetched = 10_000

// fetch brings a module into the cache, and returns the hex digits of its SHA-256. The first time that a client names an
// address, the blob is opened even if the cache has it: others may have put it there.
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
	case errors.Is(err, errTooLarge): // it stays so, and must not be fetched for each job
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

// load brings a module of a file of this machine into the cache.
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

// once calls do, or waits for the result of another call with the same key. It does not end when ctx does, since others may
// wait for it.
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
