// Package s3test starts a real S3 server for tests: versitygw, which `make s3server` builds. It keeps objects as files.
package s3test
