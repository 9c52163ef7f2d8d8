package s3

import (
	"errors"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

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
		if a, err := ParseAddress(text); !errors.Is(err, ErrAddress) {
			t.Errorf("%q is %+v, %v", text, a, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%v repeats a secret", err)
		}
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
