//go:build !unix

package web

import "net"

// arrived always reports false on systems other than Unix.
func arrived(net.Conn) bool { return false }
