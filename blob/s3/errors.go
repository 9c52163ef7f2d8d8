package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/daybookq/daybook/blob"
)

var (
	// ErrOwned: another server uses the bucket under the same prefix.
	ErrOwned = errors.New("another server owns the bucket")
	// ErrCredentials: there are no credentials.
	ErrCredentials = errors.New("there are no credentials for the bucket; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a shared credentials file, or a role of the machine")
)

// isRefusal reports whether an operator has to do something about an answer: the bucket does not exist, or the
// credentials are wrong or insufficient. Requests with other statuses below 500 can be repeated.
func isRefusal(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusPreconditionFailed, http.StatusTooManyRequests:
		return false
	}
	return status >= 300 && status < 500
}

// failed returns the error of a request: the error of ctx, blob.ErrNotFound, or blob.ErrUnavailable.
func (b *Bucket) failed(ctx context.Context, verb, key string, err error) error {
	if err == nil {
		return nil
	}
	place, name := b.place(key), key[strings.LastIndexByte(key, '/')+1:]
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%s %s: %w", verb, place, err)
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey:
		if ref, err := blob.Parse(name); err == nil { // clients get this text, and need not know the place
			return fmt.Errorf("%w: %s", blob.ErrNotFound, ref)
		}
		return fmt.Errorf("%w: %s", blob.ErrNotFound, place)
	case isRefusal(answer.StatusCode):
		return fmt.Errorf("%w: %w: %s %s: %s (%s)", blob.ErrUnavailable, blob.ErrRefused, verb, place, answer.Error(), answer.Code)
	}
	return fmt.Errorf("%w: %s %s: %w", blob.ErrUnavailable, verb, place, err)
}

// isPrecondition reports whether the service has refused a request because the object has changed, or exists.
func isPrecondition(err error) bool {
	return minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed || minio.ToErrorResponse(err).Code == minio.PreconditionFailed
}
