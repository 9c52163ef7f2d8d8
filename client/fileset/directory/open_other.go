//go:build !unix

package directory

const openFlags = 0
