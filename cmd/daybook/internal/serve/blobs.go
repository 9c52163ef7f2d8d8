package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/blob/s3"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
)

// blobFlags define where blobs are, and how many bytes they may have.
type blobFlags struct {
	blobs        string
	blobQuota    config.BytesFlag
	clientQuota  config.BytesFlag
	blobsCollect config.DurationFlag
}

// noBlobs is the value of --blobs with which the server keeps no blobs.
const noBlobs = "none"

// openBlobs opens the blobs, unless the server keeps none, and begins to collect blobs that nothing names. end ends the
// collection, and may be called more than once.
func (s *serverRun) openBlobs(ctx context.Context, engine *ingest.Engine) (end func() error, err error) {
	if s.blobs == noBlobs {
		return func() error { return nil }, nil
	}
	log := slog.New(zerolog.NewSlogHandler(s.log))
	o := blob.Options{
		QuotaBytes: int64(s.blobQuota), ClientBytes: int64(s.clientQuota), MaxFiles: s.files.blobs,
		// The age of a blob is measured in the journal's time, which does not follow a wall clock that jumps. In a
		// bucket, it is measured by the clock of the bucket.
		Hooks: blob.Hooks{Now: func() time.Time { return time.UnixMilli(engine.Now()) }},
	}
	var blobs *lateBlobs
	if isBucket(s.blobs) {
		blobs, err = s.openBucket(ctx, engine.Stats().Journal.UUID, o, log)
	} else {
		blobs, err = openLate(ctx, func(ctx context.Context) (*blob.Store, error) {
			return blob.OpenDir(ctx, cmp.Or(s.blobs, filepath.Join(s.data, "blobs")), o)
		}, openDirFor, log)
	}
	if err != nil {
		return nil, fmt.Errorf("--blobs %s: %w", cmp.Or(s.blobs, "blobs in the data directory"), err)
	}
	collector := &blob.Collector{Store: blobs.Store, Log: log, Scan: func(ctx context.Context, store *blob.Store, visit func(text []byte) error) error {
		if err := scanBlobs(ctx, engine, visit); err != nil {
			return err
		}
		return api.ScanFilesets(ctx, engine.Queries(), store, visit)
	}}
	s.options.Blobs = &api.Blobs{Store: blobs.Store, Collector: collector, Requests: blobs.requests}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // outstanding requests may still use it
	var running sync.WaitGroup
	if s.blobsCollect > 0 {
		running.Go(func() { collector.Run(ctx, time.Duration(s.blobsCollect)) })
	}
	return sync.OnceValue(func() error {
		stop()
		running.Wait()
		return blobs.Close()
	}), nil
}

// A start waits this long for a bucket or a directory, before the server continues without blobs. A directory takes
// longer if it has hundreds of thousands of blobs, which are counted, or thousands of uploads, whose states are read.
const (
	openBucketFor = 10 * time.Second
	openDirFor    = time.Second
)

// isBucket reports whether --blobs names a bucket, not a directory.
func isBucket(blobs string) bool {
	return strings.Contains(blobs, "://") || strings.HasPrefix(blobs, "s3:")
}

// checkBlobs refuses a malformed address of a bucket.
func (f *blobFlags) checkBlobs() error {
	if !isBucket(f.blobs) {
		return nil
	}
	if _, err := s3.ParseAddress(f.blobs); err != nil {
		return terminal.Usagef("--blobs: %w", err) // without the address, which may contain a secret
	}
	return nil
}

// openBucket opens the blobs in a bucket. If the service does not answer, the server starts without blobs, and opens
// them when the service answers: jobs do not wait for it. A bucket that refuses is an error, since it is most often a
// mistake in the settings.
func (s *serverRun) openBucket(ctx context.Context, server string, o blob.Options, log *slog.Logger) (*lateBlobs, error) {
	address, err := s3.ParseAddress(s.blobs)
	if err != nil {
		return nil, err
	}
	if address.IsReadable() {
		s.log.Warn().Str("endpoint", address.Endpoint).Msg("--blobs has an endpoint without TLS: whoever can read the network can read the blobs. They cannot change them, since each request is signed with the digest of its bytes, and each read is verified")
	}
	if names, err := os.ReadDir(filepath.Join(s.data, "blobs", "blobs", "sha256")); err == nil && len(names) > 0 {
		s.log.Warn().Int("blobs", len(names)).Msg("the data directory has blobs, which the server does not use, since --blobs names a bucket; docs/how-to/blobs-in-a-bucket.md shows how to copy them")
	}
	uploads, stats := filepath.Join(s.data, "blob-uploads"), new(s3.Stats)
	blobs, err := openLate(ctx, func(ctx context.Context) (*blob.Store, error) {
		bucket, err := s3.Open(ctx, s3.Options{Address: address, Server: server, Stats: stats})
		if err != nil {
			return nil, err
		}
		return blob.Open(ctx, uploads, bucket, o)
	}, openBucketFor, log)
	if err != nil {
		return nil, err
	}
	blobs.requests = stats.Requests
	return blobs, nil
}

// scanBlobs visits everything that the store holds. Addresses may be in any row: in payloads, outputs, errors and
// handlers, all of which are stored as the text that was sent.
func scanBlobs(ctx context.Context, engine *ingest.Engine, visit func(text []byte) error) error {
	if err := engine.CatchUp(ctx, 0); err != nil {
		return err
	}
	var failed error
	err := engine.Queries().EachRow(func(_ string, value []byte) bool {
		failed = visit(value)
		return failed == nil
	})
	return errors.Join(failed, err)
}
