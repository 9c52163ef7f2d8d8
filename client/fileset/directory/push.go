package directory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/daybookq/daybook/client/fileset"
)

// Push stores the missing blobs of a manifest that Scan has built from the directory. Afterwards, the caller stores the
// manifest if Tree.Unchanged returns nil. The error wraps ErrChanged if a sent file has changed; nothing of this file is
// stored then.
func Push(ctx context.Context, to Target, root *os.Root, m *fileset.Manifest, o Options) (moved Moved, err error) {
	missing, err := MissingFiles(ctx, to, m)
	if err != nil {
		return Moved{}, err
	}
	moved.Skipped = len(m.Files) - len(missing)
	var mu sync.Mutex // guards moved
	err = each(ctx, o.parallel(), len(missing), func(ctx context.Context, i int) error {
		f := missing[i]
		if err := upload(ctx, to, root, f); err != nil {
			return fmt.Errorf("push %q: %w", f.Path, err)
		}
		mu.Lock()
		moved.Files++
		moved.Bytes += f.Size
		mu.Unlock()
		return nil
	})
	return moved, err
}

// MissingFiles returns one file for each blob of the manifest that is not stored.
func MissingFiles(ctx context.Context, to Target, m *fileset.Manifest) ([]*fileset.File, error) {
	byBlob := make(map[fileset.Address]*fileset.File, len(m.Files))
	var all []fileset.Address
	for i := range m.Files {
		f := &m.Files[i]
		if byBlob[f.Blob] == nil {
			byBlob[f.Blob] = f
			all = append(all, f.Blob)
		}
	}
	gone, err := to.Missing(ctx, all)
	if err != nil {
		return nil, err
	}
	var missing []*fileset.File
	for _, a := range gone {
		if f := byBlob[a]; f != nil {
			missing = append(missing, f)
			delete(byBlob, a)
		}
	}
	return missing, nil
}

func upload(ctx context.Context, to Target, root *os.Root, f *fileset.File) (err error) {
	in, err := openUnchanged(root, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in.onChange = cancel // sending the file again would fail too
	err = to.StoreBlob(ctx, f.Blob, f.Size, in)
	if in.changed != nil {
		return in.changed
	}
	return err
}
