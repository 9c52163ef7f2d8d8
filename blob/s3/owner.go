package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/minio/minio-go/v7"

	"github.com/daybookq/daybook/blob"
)

// ownerName is the key of the owner object after the prefix. The object names the server that uses the bucket.
const ownerName = "owner.json"

// maxSmallBytes is more than the size of any object that is not a blob.
const maxSmallBytes = 4096

// owner is the content of the owner object.
type owner struct {
	Server string    `json:"server"`
	Run    string    `json:"run"` // changes at each start
	Since  time.Time `json:"since"`
}

// own makes this process the owner, unless another server is the owner. A server that was the owner before a restart
// becomes it again: its data directory keeps two processes of the same server apart.
func (b *Bucket) own(ctx context.Context) error {
	b.run = rand.Text()
	text, err := json.Marshal(owner{b.o.Server, b.run, time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return fmt.Errorf("write owner: %w", err)
	}
	key := b.o.Address.Prefix + ownerName
	for range tries {
		old, head, err := b.readOwner(ctx)
		there := err == nil
		if err != nil && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
		if there && old.Run == b.run { // the answer to an earlier try was lost
			return nil
		}
		if there && old.Server != b.o.Server {
			return b.ownedBy(old)
		}
		var o minio.PutObjectOptions
		if there {
			o.SetMatchETag(strings.Trim(head.Get("ETag"), `"`))
		} else {
			o.SetMatchETagExcept("*")
		}
		err = b.putSmall(ctx, key, text, o)
		if minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented { // a service without conditional requests
			err = b.putSmall(ctx, key, text, minio.PutObjectOptions{})
		}
		if err != nil && !isPrecondition(err) {
			return b.failed(ctx, "write", key, err)
		}
	}
	return fmt.Errorf("%w: %s is changed again and again", ErrOwned, b.place(key))
}

func (b *Bucket) ownedBy(o owner) error {
	return fmt.Errorf("%w: server %s, since %s; next step: give each server a prefix of its own, or, if that server will never run again, remove %s",
		ErrOwned, o.Server, o.Since.Format(time.RFC3339), b.place(b.o.Address.Prefix+ownerName))
}

// Owned returns ErrOwned if this process is no longer the owner, and otherwise the time by the service's clock. Only the
// service can have made the answer, because it contains the random name of this run.
func (b *Bucket) Owned(ctx context.Context) (time.Time, error) {
	now, head, err := b.readOwner(ctx)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return time.Time{}, fmt.Errorf("%w: %s was removed; next step: restart this server, unless another one is to use the bucket", ErrOwned, b.place(b.o.Address.Prefix+ownerName))
	case err != nil:
		return time.Time{}, err
	case now.Run != b.run:
		return time.Time{}, b.ownedBy(now)
	}
	at, err := http.ParseTime(head.Get("Date"))
	if err != nil {
		return at, fmt.Errorf("%w: the answer of the service has no time: %w", blob.ErrUnavailable, err)
	}
	return at, nil
}

func (b *Bucket) readOwner(ctx context.Context) (o owner, head http.Header, err error) {
	key := b.o.Address.Prefix + ownerName
	text, head, err := b.getSmall(ctx, key)
	if err != nil {
		return o, nil, err
	}
	if err := json.Unmarshal(text, &o); err != nil || o.Server == "" {
		return o, nil, fmt.Errorf("%w: %s is not that of a Daybook server; next step: give another prefix", ErrOwned, b.place(key))
	}
	return o, head, nil
}

// getSmall reads a small object.
func (b *Bucket) getSmall(ctx context.Context, key string) (text []byte, head http.Header, err error) {
	body, _, head, err := b.core.GetObject(ctx, b.name(), key, minio.GetObjectOptions{})
	if err != nil {
		return nil, nil, b.failed(ctx, "read", key, err)
	}
	text, err = io.ReadAll(io.LimitReader(body, maxSmallBytes))
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, nil, b.failed(ctx, "read", key, err)
	}
	return text, head, nil
}

// putSmall writes a small object.
func (b *Bucket) putSmall(ctx context.Context, key string, text []byte, o minio.PutObjectOptions) error {
	sum := sha256.Sum256(text)
	o.DisableContentSha256 = true // one digest for all bytes, instead of one for each chunk
	_, err := b.core.PutObject(ctx, b.name(), key, bytes.NewReader(text), int64(len(text)), "", hex.EncodeToString(sum[:]), o)
	return err
}
