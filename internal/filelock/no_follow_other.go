//go:build !unix

package filelock

// noFollow does not exist here. On Windows, only administrators make links.
const noFollow = 0
