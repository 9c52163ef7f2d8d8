package webhook

import "net/netip"

// specialRange is a range of addresses that do not lead only to the public internet.
type specialRange struct {
	prefix netip.Prefix
	what   string
}

// specialRanges are the entries in IANA's registries of special-purpose addresses (RFC 6890) that are not globally
// reachable or carry IPv4 addresses, and addresses that a cloud answers itself. The first range that contains an
// address counts.
var specialRanges = func() (list []specialRange) {
	for _, r := range [][2]string{
		{"0.0.0.0/8", "an address of this host"},
		{"10.0.0.0/8", "a private address"},
		{"100.64.0.0/10", "a shared address of a provider (RFC 6598)"},
		{"127.0.0.0/8", "a loopback address"},
		{"168.63.129.16/32", "an address of a cloud's own services"},
		{"169.254.0.0/16", "a link-local address, as are those of cloud metadata"},
		{"172.16.0.0/12", "a private address"},
		{"192.0.0.0/24", "an address of protocols (RFC 6890)"},
		{"192.0.2.0/24", "an address for documentation"},
		{"192.88.99.0/24", "a relay of 6to4"},
		{"192.168.0.0/16", "a private address"},
		{"198.18.0.0/15", "an address for benchmarks"},
		{"198.51.100.0/24", "an address for documentation"},
		{"203.0.113.0/24", "an address for documentation"},
		{"224.0.0.0/4", "a multicast address"},
		{"240.0.0.0/4", "a reserved address"},
		{"::/128", "an address of this host"},
		{"::1/128", "a loopback address"},
		{"fc00::/7", "a private address"},
		{"fe80::/10", "a link-local address"},
		{"ff00::/8", "a multicast address"},
		{"2001:db8::/32", "an address for documentation"},
		{"2001::/23", "an address of protocols, such as Teredo"},
		{"2002::/16", "an address of 6to4, which carries an IPv4 address"},
		{"3fff::/20", "an address for documentation"},
	} {
		list = append(list, specialRange{netip.MustParsePrefix(r[0]), r[1]})
	}
	return list
}()

var (
	globalV6 = netip.MustParsePrefix("2000::/3")     // all addresses that IANA has allocated for unicast on the internet
	nat64    = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the last 4 bytes are an IPv4 address
)

// special returns why an address is not public, or "" if it is. IPv6 ranges that this list does not know are not
// public.
func special(ip netip.Addr) string {
	ip = ip.Unmap()
	if ip.Zone() != "" {
		return "an address with a zone"
	}
	for _, r := range specialRanges {
		if r.prefix.Contains(ip) {
			return r.what
		}
	}
	if nat64.Contains(ip) {
		b := ip.As16()
		if what := special(netip.AddrFrom4([4]byte(b[12:]))); what != "" {
			return what + " behind NAT64"
		}
		return ""
	}
	if ip.Is6() && !globalV6.Contains(ip) {
		return "not an address of the public internet"
	}
	return ""
}
