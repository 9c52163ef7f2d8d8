package mdns

import (
	"fmt"
	"net"
	"net/netip"
)

// choose returns the interfaces with the given names. If there are no names, it returns all interfaces that are up and
// can multicast, except for loopback.
func choose(names []string) (chosen []net.Interface, err error) {
	if len(names) == 0 {
		all, err := net.Interfaces()
		if err != nil {
			return nil, fmt.Errorf("list interfaces: %w", err)
		}
		for _, i := range all {
			if usable(&i) == nil && i.Flags&net.FlagLoopback == 0 {
				chosen = append(chosen, i)
			}
		}
		return chosen, nil
	}
	for _, name := range names {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: %w", name, err)
		}
		if err := usable(i); err != nil {
			return nil, err
		}
		chosen = append(chosen, *i)
	}
	return chosen, nil
}

// usable returns an error if an interface is down or cannot multicast.
func usable(i *net.Interface) error {
	if i.Flags&net.FlagUp == 0 {
		return fmt.Errorf("interface %s is down", i.Name)
	}
	if i.Flags&net.FlagMulticast == 0 {
		return fmt.Errorf("interface %s cannot multicast", i.Name)
	}
	return nil
}

// addressesOf returns the current addresses of an interface; none if the interface no longer exists.
func addressesOf(i *net.Interface) (addresses []netip.Addr) {
	all, err := i.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addresses = append(addresses, prefix.Addr().Unmap())
		}
	}
	return addresses
}
