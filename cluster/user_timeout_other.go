//go:build !linux

package cluster

import "net"

// limitSilence does nothing: this system has no such limit.
func limitSilence(net.Conn) error { return nil }
