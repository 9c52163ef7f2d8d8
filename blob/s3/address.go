package s3

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Scheme begins the address of a bucket.
const Scheme = "s3://"

// maxPrefixBytes leaves room for the rest of a key. S3 allows keys of 1024 bytes.
const maxPrefixBytes = 512

// Address is the address of a bucket.
type Address struct {
	Bucket   string
	Prefix   string // of all keys; "" or ends with a slash
	Endpoint string // host and, if it is not the usual one, port
	TLS      bool
	Region   string // "": the library asks the service
	Lookup   string // path, dns or auto: how a request names the bucket
}

// ErrAddress: the text is not the address of a bucket.
var ErrAddress = errors.New("not the address of a bucket")

// ParseAddress reads s3://BUCKET/PREFIX?endpoint=https://HOST&region=…&lookup=path. Without an endpoint, AWS has the
// bucket. It returns ErrAddress, with a text that repeats nothing that could be a secret.
func ParseAddress(text string) (a Address, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w (s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION): %w", ErrAddress, err)
		}
	}()
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" {
		return a, errors.New("it is not a URL with the scheme s3") // the error of url.Parse repeats the text
	}
	if u.User != nil || strings.Contains(u.Host, "@") || strings.Contains(u.Opaque, "@") {
		return a, errors.New("it must not have a key or a secret; give these in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a shared credentials file, or a role of the machine")
	}
	a = Address{Bucket: u.Host, TLS: true, Endpoint: "s3.amazonaws.com", Lookup: "auto"}
	if a.Bucket == "" || u.Opaque != "" || u.Fragment != "" || strings.ContainsAny(a.Bucket, ":%") {
		return a, errors.New("it must name a bucket after s3://")
	}
	if err := s3utils.CheckValidBucketName(a.Bucket); err != nil {
		return a, fmt.Errorf("the name of the bucket is not valid: %w", err)
	}
	a.Prefix = strings.Trim(u.Path, "/")
	for part := range strings.SplitSeq(a.Prefix, "/") {
		if part == "" && a.Prefix != "" || part == "." || part == ".." {
			return a, errors.New("the prefix must not have empty parts, and neither . nor .. as one")
		}
	}
	if strings.ContainsFunc(a.Prefix, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return a, errors.New("the prefix must have printable characters of UTF-8 only")
	}
	if len(a.Prefix) > maxPrefixBytes {
		return a, fmt.Errorf("the prefix must have at most %d bytes, not %d", maxPrefixBytes, len(a.Prefix))
	}
	if a.Prefix != "" {
		a.Prefix += "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return a, errors.New("its parameters are malformed")
	}
	for name, values := range query {
		if len(values) != 1 {
			return a, errors.New("each parameter may be given once")
		}
		value := values[0]
		switch name {
		case "endpoint":
			if err := a.setEndpoint(value); err != nil {
				return a, err
			}
		case "region":
			if value == "" || strings.Trim(strings.ToLower(value), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
				return a, errors.New("region must have letters, digits, - and _ only")
			}
			a.Region = value
		case "lookup":
			if value != "auto" && value != "path" && value != "dns" {
				return a, errors.New("lookup must be path, dns or auto")
			}
			a.Lookup = value
		default:
			return a, errors.New("the parameters are endpoint, region and lookup, and no others; credentials are never a part of the address")
		}
	}
	if a.Region == "" {
		a.Region = os.Getenv("AWS_REGION")
	}
	if a.Region == "" {
		a.Region = os.Getenv("AWS_DEFAULT_REGION")
	}
	if a.Region == "" && query.Has("endpoint") {
		a.Region = "us-east-1" // the default of other services
	}
	return a, nil
}

func (a *Address) setEndpoint(text string) error {
	e, err := url.Parse(text)
	if err != nil || e.Host == "" || e.Scheme != "https" && e.Scheme != "http" {
		return errors.New("endpoint must be https://HOST or http://HOST")
	}
	if e.User != nil || strings.Trim(e.Path, "/") != "" || e.RawQuery != "" || e.Fragment != "" {
		return errors.New("endpoint must be https://HOST or http://HOST, with nothing else than a port")
	}
	a.Endpoint, a.TLS = e.Host, e.Scheme == "https"
	return nil
}

// IsReadable reports whether others in the network can read the blobs in transit: requests to the endpoint are not
// encrypted, and it is on another machine.
func (a *Address) IsReadable() bool {
	if a.TLS {
		return false
	}
	host, _, err := net.SplitHostPort(a.Endpoint)
	if err != nil {
		host = a.Endpoint
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// String returns the bucket and the prefix, for messages.
func (a *Address) String() string { return Scheme + a.Bucket + "/" + strings.TrimSuffix(a.Prefix, "/") }
