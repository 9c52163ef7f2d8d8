// Package s3test starts a real S3 server for tests: versitygw, which `scripts/tools` builds. It keeps objects as files.
package s3test
