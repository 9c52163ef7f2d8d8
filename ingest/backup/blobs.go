package backup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/job"
)

const (
	// blobsName is the file that lists the blobs of a backup. Each line has an address, the size in bytes, and the
	// client, which is empty for the blobs that all clients share.
	blobsName = "blobs.list"
	// blobsDir is the directory of the blobs of all backups in a directory. It has the layout of package blob.
	blobsDir = "blobs"
	// blobsAtOnce is how many blobs are fetched or copied in parallel. For small blobs, fsyncs take longer than the
	// bytes.
	blobsAtOnce = 8
	// maxBlobsLine is longer than an address, a size and a client.
	maxBlobsLine = 512
)

// blobsOf returns the directory with the blobs of a backup, which all backups in a directory share.
func blobsOf(backup string) string {
	return filepath.Join(filepath.Dir(filepath.Clean(backup)), blobsDir)
}

// Blobs are the blobs of a backup, with their sizes, by client.
type Blobs struct {
	mu sync.Mutex
	of map[string]map[blob.Address]int64
}

// NewBlobs returns an empty list.
func NewBlobs() *Blobs { return &Blobs{of: map[string]map[blob.Address]int64{}} }

// add adds a blob, and reports whether it was new to the list.
func (b *Blobs) add(client string, a blob.Address, size int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[client] == nil {
		b.of[client] = map[blob.Address]int64{}
	}
	_, had := b.of[client][a]
	b.of[client][a] = size
	return !had
}

func (b *Blobs) remove(client string, a blob.Address) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of[client], a)
}

func (b *Blobs) has(client string, a blob.Address) bool {
	_, ok := b.of[client][a]
	return ok
}

// Count returns the number of blobs and the sum of their sizes.
func (b *Blobs) Count() (n int, bytes int64) {
	for _, all := range b.of {
		n += len(all)
		for _, size := range all {
			bytes += size
		}
	}
	return n, bytes
}

// all yields the blobs by client and address.
func (b *Blobs) all() iter.Seq[blobEntry] {
	return func(yield func(blobEntry) bool) {
		for _, client := range slices.Sorted(maps.Keys(b.of)) {
			addresses := slices.SortedFunc(maps.Keys(b.of[client]), func(x, y blob.Address) int { return bytes.Compare(x[:], y[:]) })
			for _, a := range addresses {
				if !yield(blobEntry{client, a, b.of[client][a]}) {
					return
				}
			}
		}
	}
}

// blobEntry is a blob of a client.
type blobEntry struct {
	client  string
	address blob.Address
	size    int64
}

// path returns the path of the blob in a directory of package blob.
func (e *blobEntry) path(dir string) string {
	if e.client != "" {
		dir = filepath.Join(dir, "clients", e.client)
	}
	return filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(e.address.String(), "sha256:"))
}

// isThere reports whether the directory has a file with the blob's size.
func (e *blobEntry) isThere(dir string) bool {
	info, err := os.Lstat(e.path(dir))
	return err == nil && info.Mode().IsRegular() && info.Size() == e.size
}

// isIntact reports whether the directory has a file with the blob's content. It returns false for an unreadable file.
func (e *blobEntry) isIntact(dir string) bool {
	if !e.isThere(dir) {
		return false
	}
	sum, err := sumFile(e.path(dir))
	return err == nil && "sha256:"+sum == e.address.String()
}

// DamagedBlob is the error of a backup with a missing or changed blob. It wraps ErrDamaged.
type DamagedBlob struct {
	entry blobEntry
	text  string
}

func (e *DamagedBlob) Error() string { return fmt.Sprintf("%v: %s", ErrDamaged, e.text) }
func (e *DamagedBlob) Unwrap() error { return ErrDamaged }

func otherBytes(e *blobEntry, dir string) error {
	return &DamagedBlob{*e, fmt.Sprintf("the blob %s has other bytes than those that were stored", e.path(dir))}
}

func (b *Blobs) encode() []byte {
	var text []byte
	for e := range b.all() {
		text = fmt.Appendf(text, "%s %d %s\n", e.address, e.size, e.client)
	}
	return text
}

func decodeBlobs(text []byte) (*Blobs, error) {
	b := NewBlobs()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxBlobsLine)
	for lines.Scan() {
		wrong := fmt.Errorf("%w: %s has the line %q", ErrDamaged, blobsName, lines.Text())
		parts := strings.Split(lines.Text(), " ")
		if len(parts) != 3 {
			return nil, wrong
		}
		ref, err := blob.Parse(parts[0])
		if err != nil || ref.SHA256 == nil {
			return nil, wrong
		}
		size, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil || size < 0 {
			return nil, wrong
		}
		client := parts[2]
		if client != "" && (job.CheckName("client", client) != nil || client == "." || client == "..") {
			return nil, wrong
		}
		b.add(client, *ref.SHA256, size)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, blobsName, err)
	}
	return b, nil
}

// verify checks that the blobs are in a directory and, if read is set, reads them all.
func (b *Blobs) verify(ctx context.Context, dir string, read bool) error {
	for e := range b.all() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !e.isThere(dir) {
			return &DamagedBlob{e, fmt.Sprintf("its blob %s of %d bytes is not in %s", e.address, e.size, e.path(dir))}
		}
		if !read {
			continue
		}
		sum, err := sumFile(e.path(dir))
		if err != nil {
			return err
		}
		if "sha256:"+sum != e.address.String() {
			return otherBytes(&e, dir)
		}
	}
	return nil
}

var (
	// ErrBlobGone: the server no longer has the blob.
	ErrBlobGone = errors.New("the blob was removed")
	// ErrBlobDamaged: the server cannot send the blob, because its bytes have changed.
	ErrBlobDamaged = errors.New("the blob is damaged on the server")
)

// BlobSource is a server from which blobs are fetched.
type BlobSource interface {
	// Clients returns the clients that have blobs.
	Clients(ctx context.Context) ([]string, error)
	// List yields the addresses and sizes of a client's blobs, or with "" of the blobs that all clients share.
	List(ctx context.Context, client string) iter.Seq2[BlobInfo, error]
	// Get opens a blob, or returns ErrBlobGone or ErrBlobDamaged. Reads may return ErrBlobDamaged, too.
	Get(ctx context.Context, client, address string) (io.ReadCloser, error)
}

// BlobInfo describes a blob of a BlobSource.
type BlobInfo struct {
	Address string
	Size    int64
}

// fetched is the result of fetch.
type fetched struct {
	blobs    int
	bytes    int64
	damaged  []string // addresses of blobs that the server cannot send
	repaired []string // addresses of blobs whose bytes had changed in the directory
}

// fetch adds the blobs of a server to the list, and fetches those that are missing in the directory. It reads the
// existing blobs, and fetches them again if their bytes have changed, unless bySize is set. It leaves out blobs that the
// server removes during the fetch, and blobs that are damaged there: the rest of the backup is then all the more
// important.
func (b *Blobs) fetch(ctx context.Context, store *blob.Store, dir string, from BlobSource, bySize bool) (done fetched, err error) {
	clients, err := from.Clients(ctx)
	if err != nil {
		return done, err
	}
	var mu sync.Mutex // guards done
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(blobsAtOnce)
	list := func(client string) error {
		for info, err := range from.List(ctx, client) {
			if err != nil {
				return err
			}
			ref, err := blob.Parse(info.Address)
			if err != nil || ref.SHA256 == nil {
				return fmt.Errorf("the server has listed a blob with the address %q", info.Address)
			}
			e := blobEntry{client, *ref.SHA256, info.Size}
			isThere := e.isThere(dir)
			if !b.add(client, e.address, e.size) || isThere && bySize {
				continue
			}
			group.Go(func() error {
				if err := ctx.Err(); err != nil || isThere && e.isIntact(dir) {
					return err
				}
				err := fetchBlob(ctx, store, from, &e)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, ErrBlobGone):
					b.remove(client, e.address)
				case errors.Is(err, ErrBlobDamaged):
					b.remove(client, e.address)
					done.damaged = append(done.damaged, e.address.String())
				case err != nil:
					return fmt.Errorf("fetch blob %s: %w", e.address, err)
				default:
					if isThere {
						done.repaired = append(done.repaired, e.address.String())
					}
					done.blobs, done.bytes = done.blobs+1, done.bytes+e.size
				}
				return nil
			})
		}
		return nil
	}
	for _, client := range append([]string{""}, clients...) {
		if err = list(client); err != nil {
			break
		}
	}
	if failed := group.Wait(); failed != nil { // ends the iteration over the list
		err = failed
	}
	return done, err
}

func fetchBlob(ctx context.Context, to *blob.Store, from BlobSource, e *blobEntry) (err error) {
	r, err := from.Get(ctx, e.client, e.address.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	_, err = to.Put(ctx, e.client, r, blob.Ref{SHA256: &e.address})
	return err
}

// restore copies the blobs into a new directory. They count as new there, as if they had just been stored.
func (b *Blobs) restore(ctx context.Context, to, from string) (err error) {
	store, err := blob.OpenDir(ctx, to, blob.Options{ReserveBytes: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(blobsAtOnce)
	for e := range b.all() {
		group.Go(func() error {
			f, err := os.Open(e.path(from))
			if errors.Is(err, fs.ErrNotExist) {
				return &DamagedBlob{e, fmt.Sprintf("its blob %s is missing", e.path(from))}
			}
			if err != nil {
				return err
			}
			defer f.Close() // it was only read
			_, err = store.Put(ctx, e.client, f, blob.Ref{SHA256: &e.address})
			if errors.Is(err, blob.ErrDigest) {
				err = otherBytes(&e, from)
			}
			return err
		})
	}
	return group.Wait()
}

// sweep removes the blobs of a directory that are in no list.
func sweep(ctx context.Context, store *blob.Store, lists []*Blobs) (removed int, err error) {
	for _, client := range append([]string{""}, store.Clients()...) {
		var after *blob.Address
		for {
			page, err := store.List(ctx, client, after, blob.MaxList)
			if err != nil {
				return removed, err
			}
			for _, info := range page {
				if slices.ContainsFunc(lists, func(b *Blobs) bool { return b.has(client, info.Address) }) {
					continue
				}
				if err := store.Delete(ctx, client, info.Address); err != nil && !errors.Is(err, blob.ErrNotFound) {
					return removed, err
				}
				removed++
			}
			if len(page) < blob.MaxList {
				break
			}
			after = &page[len(page)-1].Address
		}
	}
	return removed, nil
}
