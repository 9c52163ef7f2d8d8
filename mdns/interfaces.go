package mdns

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// choose returns the interfaces with the given names, or an error if one does not exist, is down, or cannot multicast.
// Without names, it returns all interfaces that are up and can multicast, except loopback.
func choose(names []string) (chosen []net.Interface, err error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var others []string
	for _, i := range all {
		if usable(&i) == nil && i.Flags&net.FlagLoopback == 0 {
			chosen, others = append(chosen, i), append(others, i.Name)
		}
	}
	if len(names) == 0 {
		return chosen, nil
	}
	chosen = nil
	for _, name := range names {
		at := slices.IndexFunc(all, func(i net.Interface) bool { return i.Name == name })
		err := fmt.Errorf("there is no interface %s", name)
		if at >= 0 {
			err = usable(&all[at])
		}
		switch {
		case err != nil && len(others) == 0:
			return nil, fmt.Errorf("%w, and no other interface is up and can multicast", err)
		case err != nil:
			return nil, fmt.Errorf("%w; use %s", err, strings.Join(others, " or "))
		}
		chosen = append(chosen, all[at])
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

// addressesOf returns the current addresses of an interface, or none if the interface no longer exists.
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
