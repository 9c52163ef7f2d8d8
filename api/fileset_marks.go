package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/query"
)

// ScanFilesets calls visit with texts that name all blobs of all filesets: the addresses of the manifests, and the
// manifests. It is a part of blob.Collector's Scan. If a manifest cannot be read, ScanFilesets returns an error, because
// the fileset's blobs are then unknown.
func ScanFilesets(ctx context.Context, q *query.Queries, of *blob.Store, visit func(text []byte) error) error {
	return q.KeptDigests(job.FilesetDocument, func(client string, manifest job.DocumentDigest) error {
		if err := visit([]byte(manifest.String())); err != nil {
			return err
		}
		text, err := manifestText(ctx, of, client, blob.Address(manifest))
		if err != nil {
			return fmt.Errorf("read manifest %s of a fileset of client %q: %w; store its files again, or delete the fileset", manifest, client, err)
		}
		return visit(text)
	})
}

func manifestText(ctx context.Context, of *blob.Store, client string, a blob.Address) (text []byte, err error) {
	b, err := of.Get(ctx, client, a)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if size := b.Info().Size; size > fileset.MaxManifestBytes {
		return nil, fmt.Errorf("%w: it has %d bytes", fileset.ErrManifest, size)
	}
	return io.ReadAll(b)
}
