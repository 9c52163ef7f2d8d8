package mdns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/mdns"
	"github.com/miekg/dns"
)

const id = "0197f1c0-1111-7000-8000-000000000001"

func testZone() *zone {
	z := &zone{server: Server{ID: id, Port: 1717, Path: "/", Version: "1.2.3", Addr: netip.IPv6Unspecified()}}
	z.asked, z.known = time.Now().Add(time.Hour), []net.IP{net.ParseIP("10.0.0.1").To4(), net.ParseIP("fd00::1")}
	return z
}

func TestRecords(t *testing.T) {
	z := testZone()
	host := id + ".local."
	for _, service := range services {
		instance := id + "." + service + ".local."
		for _, test := range []struct {
			name string
			kind uint16
			want string
		}{
			{service + ".local.", dns.TypePTR, "PTR SRV A AAAA TXT"},
			{strings.ToUpper(service) + ".LOCAL.", dns.TypePTR, "PTR SRV A AAAA TXT"},
			{instance, dns.TypeSRV, "SRV A AAAA"},
			{instance, dns.TypeTXT, "TXT"},
			{host, dns.TypeA, "A"},
			{host, dns.TypeAAAA, "AAAA"},
			{"_services._dns-sd._udp.local.", dns.TypePTR, "PTR PTR PTR"},
			{"_other._tcp.local.", dns.TypePTR, ""},
			{service + ".example.", dns.TypePTR, ""},
		} {
			var kinds []string
			for _, r := range z.Records(dns.Question{Name: test.name, Qtype: test.kind, Qclass: dns.ClassINET}) {
				kinds = append(kinds, dns.TypeToString[r.Header().Rrtype])
				switch r := r.(type) {
				case *dns.SRV:
					if r.Port != 1717 || r.Target != host {
						t.Errorf("%v", r)
					}
				case *dns.TXT:
					if fmt.Sprint(r.Txt) != "[http_port=1717 path=/ version=1.2.3]" {
						t.Errorf("%v", r)
					}
				}
			}
			if got := strings.Join(kinds, " "); got != test.want {
				t.Errorf("%s %s: %s, want %s", test.name, dns.TypeToString[test.kind], got, test.want)
			}
		}
	}
	z.known = nil
	if r := z.Records(dns.Question{Name: Service + ".local.", Qtype: dns.TypePTR}); r != nil {
		t.Errorf("an interface without an address answers %v", r)
	}
}

func TestReachable(t *testing.T) {
	var all []netip.Addr
	for _, a := range []string{"10.0.0.1", "10.0.0.2", "fe80::1", "fd00::1"} {
		all = append(all, netip.MustParseAddr(a))
	}
	for listener, want := range map[string]string{
		"0.0.0.0": "[10.0.0.1 10.0.0.2]", "::": "[fe80::1 10.0.0.1 10.0.0.2 fd00::1]", "10.0.0.2": "[10.0.0.2]", "::ffff:10.0.0.2": "[10.0.0.2]",
		"fe80::1%eth0": "[fe80::1]", "10.9.9.9": "[]",
	} {
		if got := fmt.Sprint(reachable(all, netip.MustParseAddr(listener))); got != want {
			t.Errorf("%s: %s, want %s", listener, got, want)
		}
	}
}

// TestTake: malformed answers, and malformed parts of answers, are ignored.
func TestTake(t *testing.T) {
	entry := func(change func(e *mdns.ServiceEntry)) *mdns.ServiceEntry {
		e := &mdns.ServiceEntry{
			Name: strings.ToUpper(id) + "._daybook._tcp.local.", Port: 1717, AddrV4: net.ParseIP("10.0.0.1"),
			AddrV6IPAddr: &net.IPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}, InfoFields: []string{"http_port=1717", "path=/queue/", "version=1.2.3", "more"},
		}
		if change != nil {
			change(e)
		}
		return e
	}
	for name, test := range map[string]struct {
		e    *mdns.ServiceEntry
		want string
	}{
		"whole":             {entry(nil), "[{" + id + " http://10.0.0.1:1717/queue [10.0.0.1:1717 [fe80::1%eth0]:1717] 1717 /queue/ 1.2.3}]"},
		"IPv6 alone":        {entry(func(e *mdns.ServiceEntry) { e.AddrV4 = nil }), "[{" + id + " http://[fe80::1%25eth0]:1717/queue [[fe80::1%eth0]:1717] 1717 /queue/ 1.2.3}]"},
		"other service":     {entry(func(e *mdns.ServiceEntry) { e.Name = "printer._ipp._tcp.local." }), "[]"},
		"no port":           {entry(func(e *mdns.ServiceEntry) { e.Port = 0 }), "[]"},
		"no address":        {entry(func(e *mdns.ServiceEntry) { e.AddrV4, e.AddrV6IPAddr = nil, nil }), "[]"},
		"id with an escape": {entry(func(e *mdns.ServiceEntry) { e.Name = "\x1b[2J._daybook._tcp.local." }), "[]"},
		"TXT with escapes": {entry(func(e *mdns.ServiceEntry) {
			e.InfoFields = []string{"version=\x1b[31m", "path=/\n", "path=//evil.example/"}
		}),
			"[{" + id + " http://10.0.0.1:1717//evil.example [10.0.0.1:1717 [fe80::1%eth0]:1717] 1717 //evil.example/ }]"},
	} {
		found := map[string]*Found{}
		take(found, test.e)
		list := []Found{}
		for _, f := range found {
			list = append(list, *f)
		}
		if got := fmt.Sprint(list); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestAnnounceRefuses(t *testing.T) {
	for name, s := range map[string]Server{
		"no id":         {Addr: netip.IPv4Unspecified()},
		"id with a dot": {ID: "a.b", Addr: netip.IPv4Unspecified()},
		"no interface":  {ID: id, Port: 1, Addr: netip.IPv4Unspecified(), Interfaces: []string{"nothere0"}},
		"no address":    {ID: id, Port: 1, Addr: netip.MustParseAddr("192.0.2.1")},
	} {
		if a, err := Announce(s); err == nil {
			t.Errorf("%s: announced on %v", name, a.Interfaces)
			a.Close()
		}
	}
	if _, err := Browse(context.Background(), Query{Interfaces: []string{"nothere0"}}); err == nil {
		t.Error("browsed on an interface that does not exist")
	}
}
