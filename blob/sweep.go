package blob

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxApart is the largest difference between the place's clock and ours. S3 refuses requests beyond that.
	maxApart = 15 * time.Minute
	// sweepAtOnce is the number of old blobs, or of entries of the table, that a sweep gathers before it checks them.
	sweepAtOnce = 1000
	// tableEvery is the time between two checks by sweeps of a client's table in a bucket. A sweep finds the entry of a
	// blob that it removes by the metadata of the blob. If a server was killed in between, or an upload has failed after
	// its entry was written, an entry without a blob stays. To find these, a sweep must read each entry, which is a
	// request. So it does that seldom, and for a part of the table.
	tableEvery = 24 * time.Hour
	// tableAtOnce is the number of old entries that a sweep checks then. The next check continues after the last one.
	tableAtOnce = 10_000
)

// tableSweep is the last check of a client's table in a bucket.
type tableSweep struct {
	at time.Time
	to string // the last entry; "": the end of the table
}

// Delete removes a blob of the client at once, even if a job names it. It returns ErrNotFound if the blob is not stored.
// In a directory, its SHA-1 entry stays until the next sweep, without a blob.
func (s *Store) Delete(ctx context.Context, client string, a Address) error {
	if has, err := s.has(client); err != nil {
		return err
	} else if !has {
		return notFound(a)
	}
	k := blobKey(client, a)
	release, err := s.own(ctx, k)
	if err != nil {
		return err
	}
	defer release()
	o, err := s.backend.Stat(ctx, k)
	if err == nil && o.Hidden {
		err = notFound(a)
	}
	if err == nil {
		_, err = s.drop(ctx, k, &o)
	}
	if err != nil {
		return err
	}
	return s.backend.Sync(ctx, client)
}

// drop removes a blob, and the entry of its SHA-1 if that is known. The caller owns the blob.
func (s *Store) drop(ctx context.Context, k Key, o *Object) (droppedSHA1 bool, err error) {
	counted := s.counted(k, o.Size)
	if err := s.backend.Remove(ctx, k); err != nil {
		s.settle(k, counted, max(counted, o.Size))
		return false, fmt.Errorf("remove blob: %w", err)
	}
	s.countAs(k, counted, 0)
	s.ageIsDurable([]Key{k})
	if o.SHA1 == (SHA1{}) {
		return false, nil
	}
	return s.dropSHA1(ctx, k.Client, o.SHA1, o.Address)
}

// dropSHA1 removes an entry of the table if it leads to a blob that its caller owns and that does not exist.
func (s *Store) dropSHA1(ctx context.Context, client string, x SHA1, a Address) (dropped bool, err error) {
	release, err := s.own(ctx, sha1Key(client, x))
	if err != nil {
		return false, err
	}
	defer release()
	if to, err := s.backend.SHA1(ctx, client, x); err != nil || to != a {
		return false, ignoreDamage(err)
	}
	return true, s.backend.Remove(ctx, sha1Key(client, x))
}

// Sweep removes the blobs of a client that are older than Options.Grace and that live does not name, and the SHA-1
// entries of blobs that are gone. It also removes expired resumable uploads, and a client that then stores nothing. The
// age of a blob counts from its last Put or Missing. In a bucket, entries without a blob are removed once a day.
//
// Sweep calls live for one blob at a time, while no Put of this blob can end; live must not call the Store. A producer
// has put a blob, or called Missing with it, before it creates a job that names the blob. So a job that live does not
// know yet names only young blobs.
//
// A list gives the first view of a blob's age. Before Sweep removes the blob, it reads the age again, while no Put or
// Missing of its address runs. Sweep fixes the limit for old blobs once, when it begins.
func (s *Store) Sweep(ctx context.Context, client string, live func(Address) bool) (swept Swept, err error) {
	if has, err := s.has(client); !has || err != nil {
		return swept, err
	}
	w := &sweep{s: s, client: client, live: live}
	if err = w.run(ctx); err == nil && client != "" {
		err = s.forget(ctx, client)
	}
	if err != nil && client != "" {
		return w.swept, fmt.Errorf("sweep blobs of client %s: %w", client, err)
	}
	if err != nil {
		return w.swept, fmt.Errorf("sweep blobs: %w", err)
	}
	return w.swept, nil
}

// sweep is a running sweep.
type sweep struct {
	s      *Store
	client string
	before time.Time // blobs that were last put or renewed before it are old

	mu    sync.Mutex // guards the fields below
	live  func(Address) bool
	swept Swept
}

func (w *sweep) run(ctx context.Context) (err error) {
	if w.before, err = w.s.oldBefore(ctx); err != nil {
		return err
	}
	_, err = w.each(ctx, Blobs, "", 0, w.sweepBlob)
	if err == nil && w.swept.Blobs > 0 {
		err = w.s.backend.Sync(ctx, w.client)
	}
	if err == nil {
		err = w.table(ctx)
	}
	if err != nil {
		return err
	}
	w.s.mu.Lock()
	c := w.s.clients[w.client]
	w.s.mu.Unlock()
	if c != nil {
		w.swept.Uploads, err = w.s.dropUploads(c, func(state UploadState) bool { return w.s.h.Now().After(state.Expires) })
	}
	return err
}

// oldBefore returns the time before which an old blob was put. Such a blob is old by our clock and by the place's
// clock. If the two clocks are more than maxApart apart, one of them is wrong and nobody knows which, so oldBefore
// returns an error and no blob is old.
func (s *Store) oldBefore(ctx context.Context) (time.Time, error) {
	now := s.h.Now()
	there, err := s.backend.Owned(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if apart := there.Sub(now); apart.Abs() > maxApart {
		return time.Time{}, fmt.Errorf("%w: its clock is %v from that of this machine, more than %v; next step: set the clock", ErrUnavailable, apart.Round(time.Second), maxApart)
	}
	if there.Before(now) {
		now = there
	}
	return now.Add(-s.o.Grace), nil
}

// each calls check with the old objects of a kind whose names are after a given one, sweepAtOnce at a time. It ends
// after most objects, unless that is 0, and returns the name of the last one, or "" if no more follow.
func (w *sweep) each(ctx context.Context, kind Kind, after string, most int, check func(context.Context, *Object) error) (last string, err error) {
	var old []Object
	flush := func() error {
		err := atOnce(ctx, w.s, old, func(ctx context.Context, _ int, o Object) error { return check(ctx, &o) })
		old = old[:0]
		return err
	}
	n := 0
	err = w.s.backend.List(ctx, w.client, kind, after, 0, func(o Object) error {
		if !o.Changed.Before(w.before) {
			return ctx.Err()
		}
		old = append(old, o)
		if n++; n == most {
			last = o.SHA1.String()
			return errListed
		}
		if len(old) < sweepAtOnce {
			return nil
		}
		return flush()
	})
	if err != nil && err != errListed {
		return "", err
	}
	return last, flush()
}

// isLive calls live for one blob at a time.
func (w *sweep) isLive(a Address) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live(a)
}

// add counts what was removed.
func (w *sweep) add(swept Swept) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swept.add(swept)
}

// sweepBlob removes one blob if live and its age allow it. It owns the blob while it reads the age and removes the
// blob. So a Put or Missing happens either before, and the blob is young, or after, and finds no blob.
func (w *sweep) sweepBlob(ctx context.Context, o *Object) error {
	s, k := w.s, blobKey(w.client, o.Address)
	release, err := s.own(ctx, k)
	if err != nil {
		return err
	}
	defer release()
	if w.isLive(o.Address) {
		return nil
	}
	now, err := s.backend.Stat(ctx, k)
	if errors.Is(err, ErrNotFound) {
		return w.sweepRenewal(ctx, o.Address)
	}
	if err != nil || now.Hidden {
		return err
	}
	if err := s.addRenewal(ctx, w.client, &now); err != nil || !now.Changed.Before(w.before) {
		return err
	}
	droppedSHA1, err := s.drop(ctx, k, &now)
	if err != nil {
		return err
	}
	swept := Swept{Blobs: 1, Bytes: now.Size}
	if droppedSHA1 {
		swept.SHA1s = 1
	}
	w.add(swept)
	return nil
}

// sweepRenewal removes the old renewal of a blob that does not exist. The caller owns the blob.
func (w *sweep) sweepRenewal(ctx context.Context, a Address) error {
	k := renewalKey(w.client, a)
	o, err := w.s.backend.Stat(ctx, k)
	if err != nil || !o.Changed.Before(w.before) {
		return ignoreNotFound(err)
	}
	return w.s.backend.Remove(ctx, k)
}

// table removes old entries of the table whose blobs are gone, if a check is due.
func (w *sweep) table(ctx context.Context) error {
	s := w.s
	if !s.remote {
		_, err := w.each(ctx, SHA1s, "", 0, w.sweepSHA1)
		return err
	}
	s.mu.Lock()
	c := s.clients[w.client]
	s.mu.Unlock()
	if c == nil {
		return nil // another sweep has removed it
	}
	release, _ := s.tryOwn(Key{Client: w.client, Kind: SHA1s})
	if release == nil {
		return nil // another sweep does it
	}
	defer release()
	now := s.h.Now()
	if now.Sub(c.lastTable.at).Abs() < tableEvery {
		return nil
	}
	last, err := w.each(ctx, SHA1s, c.lastTable.to, tableAtOnce, w.sweepSHA1)
	if err != nil {
		return err
	}
	c.lastTable = tableSweep{now, last}
	return nil
}

// sweepSHA1 removes an entry if it names a blob that does not exist. A Put owns the blob, writes the entry, and then
// stores the blob.
func (w *sweep) sweepSHA1(ctx context.Context, o *Object) error {
	s, x := w.s, o.SHA1
	a, err := s.backend.SHA1(ctx, w.client, x)
	if err != nil {
		return ignoreDamage(err)
	}
	k := blobKey(w.client, a)
	if _, err := s.backend.Stat(ctx, k); !errors.Is(err, ErrNotFound) {
		return err
	}
	release, err := s.own(ctx, k)
	if err != nil {
		return err
	}
	defer release()
	if _, err := s.backend.Stat(ctx, k); !errors.Is(err, ErrNotFound) {
		return err
	}
	dropped, err := s.dropSHA1(ctx, w.client, x, a)
	if dropped && err == nil {
		w.add(Swept{SHA1s: 1})
	}
	return err
}
