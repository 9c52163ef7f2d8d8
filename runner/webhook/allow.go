package webhook

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Allow is a list of addresses that requests may go to although they are not public. A nil *Allow is empty.
type Allow struct {
	names     map[string]bool // host, or host:port
	prefixes  []netip.Prefix
	addrPorts map[netip.AddrPort]bool
}

// ParseAllow parses a list. Each entry is a host name or an IP address, with or without a port, or a range of addresses
// such as 10.1.0.0/16. A host name allows every address that it resolves to when the runner connects.
func ParseAllow(list []string) (*Allow, error) {
	a := &Allow{names: map[string]bool{}, addrPorts: map[netip.AddrPort]bool{}}
	for _, entry := range list {
		if err := a.add(entry); err != nil {
			return nil, fmt.Errorf("%q: %w; use a host, host:port, an IP address, or a range like 10.1.0.0/16", entry, err)
		}
	}
	return a, nil
}

func (a *Allow) add(entry string) error {
	if strings.Contains(entry, "/") {
		p, err := netip.ParsePrefix(entry)
		switch {
		case err != nil:
			return fmt.Errorf("not a range of addresses")
		case p.Addr().Is4In6():
			return fmt.Errorf("a range of IPv4 addresses must be written in the form of IPv4")
		case p != p.Masked():
			return fmt.Errorf("the address has bits outside of /%d, did you mean %s", p.Bits(), p.Masked())
		}
		a.prefixes = append(a.prefixes, p)
		return nil
	}
	if ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]")); err == nil {
		ip = ip.Unmap().WithZone("")
		a.prefixes = append(a.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
		return nil
	}
	host, port := entry, ""
	if strings.Contains(entry, ":") {
		var err error
		if host, port, err = net.SplitHostPort(entry); err != nil {
			return fmt.Errorf("not a host with a port")
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a port", port)
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			a.addrPorts[netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(n))] = true
			return nil
		}
		port = ":" + strconv.FormatUint(n, 10)
	}
	if !isName(host) {
		return fmt.Errorf("not a host name")
	}
	a.names[plainName(host)+port] = true
	return nil
}

// isName reports whether host may be a host name, in ASCII. A name whose last label is a number is not one, because
// programs read 127.1 as an address.
func isName(host string) bool {
	host = plainName(host)
	if host == "" || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}

// plainName returns a host name in the form in which names are compared.
func plainName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// name reports whether the list contains a host name.
func (a *Allow) name(host, port string) bool {
	host = plainName(host)
	return a != nil && (a.names[host] || a.names[host+":"+port])
}

// address reports whether the list contains an IP address.
func (a *Allow) address(to netip.AddrPort) bool {
	if a == nil {
		return false
	}
	ip := to.Addr().Unmap().WithZone("")
	for _, p := range a.prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	return a.addrPorts[netip.AddrPortFrom(ip, to.Port())]
}
