// Package s3test starts a real S3 server for tests: versitygw, which `make s3server` builds. It keeps objects as files.
//
// # Files
//
//	server.go        the server
//	parent_linux.go  the server ends with its parent
//	parent_other.go  on other systems it may outlive its parent
//	proxy.go         a proxy in front of it, which delays, breaks and changes requests
package s3test
