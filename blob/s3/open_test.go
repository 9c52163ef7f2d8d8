package s3

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/blob/s3/s3test"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestUnfinishedParts: the next start removes the parts of a killed server.
func TestUnfinishedParts(t *testing.T) {
	all, _, _ := behindProxy(t, blob.Options{})
	b := all.opened
	list := func() int {
		page := testkit.Must(b.core.ListMultipartUploads(t.Context(), "bucket", "p/", "", "", "", 100))(t)
		return len(page.Uploads)
	}
	for range 3 {
		testkit.Must(b.core.NewMultipartUpload(t.Context(), "bucket", b.blob("", addressOf("x")), putOptions(blob.Info{})))(t)
	}
	testkit.MustEqual(t, list(), 3, "unfinished uploads")
	all.reopen()
	b = all.opened
	testkit.Equal(t, list(), 0, "unfinished uploads after a restart")
}

// TestUploadsOfOthers: a start removes no unfinished upload unless its key is a blob's key.
func TestUploadsOfOthers(t *testing.T) {
	server := s3test.Start(t, "bucket")
	all := newStore(t, server.Address("bucket"), blob.Options{})
	hex := hexOf(addressOf("x"))
	keys := map[string]bool{ // true: it is ours
		"blobs/sha256/" + hex: true, "clients/alice/blobs/sha256/" + hex: true,
		"somebody/elses.bin": false, "blobs/sha256/" + hex + ".bin": false, "blobs/other": false, "clients/alice/other": false,
		"other/blobs/sha256/" + hex: false, "clients/a/b/blobs/sha256/" + hex: false,
	}
	ids := map[string]string{}
	for key := range keys {
		id := testkit.Must(all.opened.core.NewMultipartUpload(t.Context(), "bucket", key, minio.PutObjectOptions{}))(t)
		ids[key] = id
	}
	all.reopen()
	for key, ours := range keys {
		_, err := all.opened.core.ListObjectParts(t.Context(), "bucket", key, ids[key], 0, 10)
		testkit.Equal(t, err != nil, ours, "the upload", key, "after a start:", err)
	}
}

// TestOwner: a bucket has one server.
func TestOwner(t *testing.T) {
	all, server, _ := behindProxy(t, blob.Options{})
	other := *all.bucket
	other.Server = "server-2"
	if _, err := Open(t.Context(), other); !errors.Is(err, ErrOwned) || errors.Is(err, blob.ErrUnavailable) || !strings.Contains(err.Error(), "server-1") {
		t.Errorf("a second server: %v", err)
	}
	elsewhere := other
	elsewhere.Address.Prefix = "elsewhere/"
	b, err := Open(t.Context(), elsewhere)
	if err != nil {
		t.Errorf("a second server with a prefix of its own: %v", err)
	} else if err := b.Close(); err != nil {
		t.Error(err)
	}
	all.reopen() // the same server again
	mustPut(t, all.of(""), "mine")
	all.age(25 * time.Hour)
	owner := file(server, "p/owner.json")
	sweep := func() (blob.Swept, error) {
		return all.Sweep(t.Context(), "", func(blob.Address) bool { return false })
	}
	testkit.NoError(t, all.opened.core.RemoveObject(t.Context(), "bucket", "p/owner.json", minio.RemoveObjectOptions{}))
	testkit.Fails(sweep())(t, ErrOwned)
	b, err = Open(t.Context(), other)
	testkit.NoError(t, err, "a takeover")
	defer b.Close()
	testkit.Fails(sweep())(t, ErrOwned)
	mustRead(t, all.of(""), "mine")
	testkit.NoError(t, os.WriteFile(owner, []byte("not an owner"), 0o600))
	testkit.Fails(Open(t.Context(), other))(t, ErrOwned)
}

// TestOwnerAtOnce: if many servers start at the same time, one gets the bucket.
func TestOwnerAtOnce(t *testing.T) {
	all, _, _ := behindProxy(t, blob.Options{})
	testkit.NoError(t, all.opened.core.RemoveObject(t.Context(), "bucket", "p/owner.json", minio.RemoveObjectOptions{}))
	won := make(chan *Bucket, 8)
	for i := range cap(won) {
		go func() {
			o := *all.bucket
			o.Server = "server " + itoa(int64(i))
			b, err := Open(context.Background(), o)
			testkit.Holds(t, err == nil || errors.Is(err, ErrOwned), err)
			won <- b
		}()
	}
	n := 0
	for range cap(won) {
		if b := <-won; b != nil {
			n++
			testkit.Must(b.Owned(t.Context()))(t)
			defer b.Close()
		}
	}
	testkit.Equal(t, n, 1, "servers got the bucket")
}

// TestOpenErrors: a problem that an operator has to solve is an error at once. If the service does not answer, it may
// do so later.
func TestOpenErrors(t *testing.T) {
	server := s3test.Start(t, "bucket")
	open := func(address string) error {
		a := testkit.Must(ParseAddress(address))(t)
		b, err := Open(t.Context(), Options{Address: a, Server: "server"})
		if err == nil {
			b.Close()
		} else if strings.Contains(err.Error(), s3test.SecretKey) {
			t.Errorf("%v has the secret", err)
		}
		return err
	}
	testkit.Failed(t, open(server.Address("nobucket/p")), blob.ErrRefused, "NoSuchBucket")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	testkit.Failed(t, open(server.Address("bucket/p")), blob.ErrRefused, "SignatureDoesNotMatch")
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	server.Kill()
	err := open(server.Address("bucket/p"))
	testkit.Holds(t, errors.Is(err, blob.ErrUnavailable) && !errors.Is(err, blob.ErrRefused), "no service", err)
}

// TestCredentials: credentials are read from the environment, a file or a role, and without any the start fails.
func TestCredentials(t *testing.T) {
	server := s3test.Start(t, "bucket")
	a := testkit.Must(ParseAddress(server.Address("bucket/p")))(t)
	open := func() error {
		b, err := Open(t.Context(), Options{Address: a, Server: "server"})
		if err == nil {
			err = b.Close()
		}
		return err
	}
	testkit.Check(t, open(), "environment")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	path := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", path)
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/role" {
			io.WriteString(w, `{"AccessKeyId":"`+s3test.AccessKey+`","SecretAccessKey":"`+s3test.SecretKey+`","Token":"","Expiration":"2999-01-01T00:00:00Z"}`)
		} else {
			http.NotFound(w, r)
		}
	}))
	defer role.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL+"/none")
	err := open()
	testkit.Holds(t, errors.Is(err, ErrCredentials) && !errors.Is(err, blob.ErrUnavailable), "none", err)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL+"/role")
	testkit.Check(t, open(), "role")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL+"/none")
	text := "[default]\naws_access_key_id = x\naws_secret_access_key = y\n[blobs]\naws_access_key_id = " + s3test.AccessKey + "\naws_secret_access_key = " + s3test.SecretKey + "\n"
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	testkit.Failed(t, open(), blob.ErrRefused)
	t.Setenv("AWS_PROFILE", "blobs")
	testkit.Check(t, open(), "profile")
}

func TestParseAddress(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	for text, want := range map[string]Address{
		"s3://bkt":    {Bucket: "bkt", Endpoint: "s3.amazonaws.com", TLS: true, Lookup: "auto"},
		"s3://bkt/":   {Bucket: "bkt", Endpoint: "s3.amazonaws.com", TLS: true, Lookup: "auto"},
		"s3://bkt/p/": {Bucket: "bkt", Prefix: "p/", Endpoint: "s3.amazonaws.com", TLS: true, Lookup: "auto"},
		"s3://bkt/p/q?region=eu-west-1&lookup=dns":      {Bucket: "bkt", Prefix: "p/q/", Endpoint: "s3.amazonaws.com", TLS: true, Region: "eu-west-1", Lookup: "dns"},
		"s3://bkt?endpoint=https://s3.example.com":      {Bucket: "bkt", Endpoint: "s3.example.com", TLS: true, Region: "us-east-1", Lookup: "auto"},
		"s3://bkt?endpoint=http://10.0.0.1:9000/":       {Bucket: "bkt", Endpoint: "10.0.0.1:9000", Region: "us-east-1", Lookup: "auto"},
		"s3://bkt?endpoint=http%3A%2F%2Flocalhost:9000": {Bucket: "bkt", Endpoint: "localhost:9000", Region: "us-east-1", Lookup: "auto"},
	} {
		testkit.Equal(t, testkit.Must(ParseAddress(text))(t), want, text)
	}
	t.Setenv("AWS_REGION", "eu-north-1")
	a := testkit.Must(ParseAddress("s3://bkt?endpoint=https://s3.example.com"))(t)
	testkit.Equal(t, a.Region, "eu-north-1", "region of the environment")
	const secret = "SeCrEt"
	for _, text := range []string{
		"", "s3:", "s3://", "s3://b", "s3://a..b", "s3:b", "s4://b", "s3:///p", "s3://bkt#f", "s3://bkt:80", "s3://bkt//p/../q", "s3://bkt/p//q", "s3://bkt/./q", "s3://bkt/%2e%2e/q", "s3://bkt/a%0Ab", "s3://bkt/a%ffb",
		"s3://" + secret + "@bkt", "s3://key:" + secret + "@bkt/p", "s3:key:" + secret + "@bkt", "s3://key:" + secret + "%zz@bkt", "s3://bkt?secret=" + secret, "s3://bkt?" + secret,
		"s3://bkt?endpoint=https://key:" + secret + "@host", "s3://bkt?endpoint=ftp://host", "s3://bkt?endpoint=host", "s3://bkt?endpoint=https://host/path",
		"s3://bkt?region=", "s3://bkt?region=a/b", "s3://bkt?region=a&region=b", "s3://bkt?lookup=x", "s3://bkt?region=%zz", "s3://bkt/" + strings.Repeat("p", maxPrefixBytes+1),
	} {
		a, err := ParseAddress(text)
		testkit.Holds(t, errors.Is(err, ErrAddress), text, "is", a, err)
		testkit.Holds(t, err == nil || !strings.Contains(err.Error(), secret), err, "repeats a secret")
	}
}

func TestIsReadable(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"https://10.0.0.1": false, "http://127.0.0.1:1": false, "http://localhost:1": false, "http://[::1]:1": false,
		"http://10.0.0.1:1": true, "http://minio:9000": true,
	} {
		a := testkit.Must(ParseAddress("s3://bkt?endpoint=" + endpoint))(t)
		testkit.Equal(t, a.IsReadable(), want, endpoint)
	}
}
