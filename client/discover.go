package client

import (
	"context"

	"github.com/daybookq/daybook/mdns"
)

// DiscoverOptions say where and for how long Discover looks. The zero value looks on all interfaces and waits for
// answers for two seconds.
type DiscoverOptions = mdns.Query

// Discovered is a server that announced itself.
type Discovered = mdns.Found

// Discover finds servers on the local network by multicast DNS, in order of their ids. It returns those that answered
// within the time; a server that was stopped lately may be among them. Answers are not authenticated: whoever is in the
// network can announce any address.
func Discover(ctx context.Context, o DiscoverOptions) ([]Discovered, error) {
	return mdns.Browse(ctx, o)
}
