package client

import (
	"context"

	"github.com/daybookq/daybook/mdns"
)

// DiscoverOptions select the network interfaces on which Discover looks, and for how long. The zero value means all
// interfaces and two seconds.
type DiscoverOptions = mdns.Query

// Discovered is a server that announced itself.
type Discovered = mdns.Found

// Discover finds servers on the local network by multicast DNS, and returns those that answered in time, in order of
// their ids. A server that stopped a short time ago may be among them. Answers are not authenticated: any machine in
// the network can announce any address.
func Discover(ctx context.Context, o DiscoverOptions) ([]Discovered, error) {
	return mdns.Browse(ctx, o)
}
