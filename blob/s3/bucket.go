package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/daybookq/daybook/blob"
)

const (
	// tries is the number of times that a request is sent, with rests of up to a second. If an upload or a collection
	// still fails, its caller repeats it as a whole.
	tries = 4
	// roleFor is the longest time in which the service that gives a machine its role may answer.
	roleFor = 2 * time.Second
)

// Options of a Bucket.
type Options struct {
	Address Address
	// Server identifies this server to other servers that use the same bucket. It is the same after a restart.
	Server string
	// PartBytes is the size of the parts in which a longer blob is copied; 0: 64 MiB, and more for the longest.
	PartBytes int64
	Stats     *Stats // receives the counts of requests; nil: they are not needed
	// Silence is the time that a request waits for the next byte; 0: 30 s.
	Silence time.Duration
}

// Bucket is the Backend of a part of a bucket of S3: the objects whose keys have a prefix. Its methods may be called by
// many goroutines.
type Bucket struct {
	o         Options
	core      *minio.Core
	transport *transport
	end       context.CancelFunc
	run       string // of the owner object
}

var _ blob.Backend = (*Bucket)(nil)

// Open makes the server the owner of the bucket, and removes unfinished uploads of an earlier process. It returns
// blob.ErrUnavailable if the service does not answer, which may pass. It returns ErrCredentials or ErrOwned, and also
// blob.ErrRefused, for problems that an operator has to solve.
func Open(ctx context.Context, o Options) (_ *Bucket, err error) {
	b, err := connect(o)
	defer func() {
		if err != nil {
			err = fmt.Errorf("open %s: %w", &o.Address, errors.Join(err, b.Close()))
		}
	}()
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{b.look, b.own, b.abortAll} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// connect finds credentials, and sends no request to the bucket. The bucket must be closed after an error, too.
func connect(o Options) (*Bucket, error) {
	ended, end := context.WithCancel(context.Background())
	b := &Bucket{o: o, transport: newTransport(ended, cmp.Or(o.Stats, new(Stats))), end: end}
	if o.Silence > 0 {
		b.transport.silent = o.Silence
	}
	core, err := minio.NewCore(o.Address.Endpoint, &minio.Options{
		Creds: chain(), Secure: o.Address.TLS, Transport: b.transport, Region: o.Address.Region, MaxRetries: tries,
		BucketLookup: map[string]minio.BucketLookupType{"path": minio.BucketLookupPath, "dns": minio.BucketLookupDNS}[o.Address.Lookup],
	})
	if err != nil {
		return b, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if value, err := core.GetCreds(); err != nil || value.SignerType == credentials.SignatureAnonymous {
		return b, ErrCredentials
	}
	b.core = core
	return b, nil
}

// chain looks for credentials in the environment, in the shared credentials file, and in the role of the machine.
func chain() *credentials.Credentials {
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Timeout: roleFor}},
	})
}

// Close ends all outstanding requests.
func (b *Bucket) Close() error {
	b.end()
	if t, ok := b.transport.base.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// place is the name of an object in messages.
func (b *Bucket) place(key string) string { return Scheme + b.o.Address.Bucket + "/" + key }

func (b *Bucket) name() string { return b.o.Address.Bucket }

// look finds out whether the bucket exists and can be listed.
func (b *Bucket) look(ctx context.Context) error {
	for o := range b.core.ListObjectsIter(ctx, b.name(), minio.ListObjectsOptions{Prefix: b.o.Address.Prefix, Recursive: true, MaxKeys: 1}) {
		return b.failed(ctx, "list", b.o.Address.Prefix, o.Err)
	}
	return nil
}

// clientsFolder has the objects of clients.
const clientsFolder = "clients/"

// abortAll removes multipart uploads that an earlier process has begun. This server is the only one that uses the
// prefix. Multipart uploads for keys that are not keys of blobs belong to other programs.
func (b *Bucket) abortAll(ctx context.Context) error {
	for _, part := range []string{string(blob.Blobs), clientsFolder} {
		if err := b.abort(ctx, b.o.Address.Prefix+part); err != nil {
			return err
		}
	}
	return nil
}

// abort removes the uploads of blobs whose keys have a prefix.
func (b *Bucket) abort(ctx context.Context, prefix string) error {
	for key, id := "", ""; ; {
		page, err := b.core.ListMultipartUploads(ctx, b.name(), prefix, key, id, "", 1000)
		if err != nil {
			return b.failed(ctx, "list uploads of", prefix, err)
		}
		for _, u := range page.Uploads {
			if k, ok := b.parse(u.Key); !ok || k.Kind != blob.Blobs {
				continue
			}
			err := b.core.AbortMultipartUpload(ctx, b.name(), u.Key, u.UploadID)
			if code := minio.ToErrorResponse(err).Code; err != nil && code != "NoSuchUpload" && code != minio.NoSuchKey {
				return b.failed(ctx, "abort upload of", u.Key, err)
			}
		}
		if !page.IsTruncated || ctx.Err() != nil {
			return ctx.Err()
		}
		key, id = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

// key is the key of an object in the bucket: PREFIX/[clients/NAME/]FOLDER/<hex>.
func (b *Bucket) key(k blob.Key) string { return b.o.Address.Prefix + k.Path() }

// parse is the inverse of key. It returns false for the objects of other programs.
func (b *Bucket) parse(key string) (blob.Key, bool) {
	path, ok := strings.CutPrefix(key, b.o.Address.Prefix)
	if !ok {
		return blob.Key{}, false
	}
	return blob.ParsePath(path)
}

// Usage lists all blobs, and returns their bytes for each client. A client that has only entries without a blob has 0.
func (b *Bucket) Usage(ctx context.Context) (map[string]int64, error) {
	usage := map[string]int64{}
	for _, part := range []string{string(blob.Blobs), clientsFolder} {
		prefix := b.o.Address.Prefix + part
		for o := range b.core.ListObjectsIter(ctx, b.name(), minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if o.Err != nil {
				return nil, b.failed(ctx, "list", prefix, o.Err)
			}
			if k, ok := b.parse(o.Key); ok && k.Kind == blob.Blobs {
				usage[k.Client] += o.Size
			} else if ok {
				usage[k.Client] += 0
			}
		}
	}
	return usage, ctx.Err()
}

// Forget reports whether no key has the prefix of the client. Nothing remains to be removed then.
func (b *Bucket) Forget(ctx context.Context, client string) (bool, error) {
	prefix := b.o.Address.Prefix + clientsFolder + client + "/"
	for o := range b.core.ListObjectsIter(ctx, b.name(), minio.ListObjectsOptions{Prefix: prefix, Recursive: true, MaxKeys: 1}) {
		return false, b.failed(ctx, "list", prefix, o.Err)
	}
	return ctx.Err() == nil, ctx.Err()
}
