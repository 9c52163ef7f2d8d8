package mdns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	// DefaultTimeout is how long Browse listens for answers.
	DefaultTimeout = 2 * time.Second
	// maxFound bounds the servers that Browse returns, because any machine in the segment can announce any number.
	maxFound = 1000
)

// Found is a server that has answered.
type Found struct {
	ID        string   `json:"id"`
	URL       string   `json:"url"` // contains the first address
	Addresses []string `json:"addresses"`
	Port      int      `json:"port"`
	Path      string   `json:"path"`
	Version   string   `json:"version"`
	TLS       bool     `json:"tls"` // clients connect by TLS
}

// Query describes a search for servers.
type Query struct {
	Timeout    time.Duration // 0: DefaultTimeout
	Interfaces []string      // names of interfaces; empty: all that are up and can multicast, except loopback
}

// Browse sends queries on each interface and returns the servers that answer within q.Timeout, ordered by id, with all
// addresses in their answers. It repeats the queries until the time-out, because networks lose packets and a responder
// may leave out records that it has just sent to another machine. It ignores answers of other programs. Answers are not
// authenticated, and a server may have stopped since. Browse returns an error if an interface does not exist or cannot
// multicast, if ctx ends, or if no query could be sent.
//
// The library can send queries, too, but it keeps only one address of each family per server, and sends each query
// once.
func Browse(ctx context.Context, q Query) ([]Found, error) {
	if q.Timeout <= 0 {
		q.Timeout = DefaultTimeout
	}
	interfaces, err := choose(q.Interfaces)
	if err != nil {
		return nil, fmt.Errorf("browse: %w", err)
	}
	if len(interfaces) == 0 {
		return nil, errors.New("browse: no network interface is up and can multicast")
	}
	limited, end := context.WithTimeout(ctx, q.Timeout)
	defer end()
	a := newAnswers()
	failed := make([]error, 2*len(interfaces))
	var asking sync.WaitGroup
	for at, i := range interfaces {
		v4, v6 := families(&i)
		if v4 {
			asking.Go(func() { failed[2*at] = a.ask(limited, &i, "udp4", groupV4, q.Timeout) })
		}
		if v6 {
			asking.Go(func() { failed[2*at+1] = a.ask(limited, &i, "udp6", groupV6, q.Timeout) })
		}
	}
	asking.Wait()
	list := a.found()
	if err := errors.Join(failed...); err != nil && len(list) == 0 {
		return nil, fmt.Errorf("browse: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("browse: %w", err)
	}
	return list, nil
}

// Groups of multicast DNS (RFC 6762, section 3).
var (
	groupV4 = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}
	groupV6 = &net.UDPAddr{IP: net.ParseIP("ff02::fb"), Port: 5353}
)

// ask repeats the questions to a group on an interface and collects the answers until ctx ends. It sends the questions
// from a new port, so each responder answers to that port (RFC 6762, 6.7). It returns an error if no question could be
// sent.
func (a *answers) ask(ctx context.Context, i *net.Interface, network string, group *net.UDPAddr, timeout time.Duration) error {
	conn, err := net.ListenUDP(network, nil)
	if err != nil {
		return fmt.Errorf("interface %s: %w", i.Name, err)
	}
	defer conn.Close()
	if network == "udp4" {
		err = ipv4.NewPacketConn(conn).SetMulticastInterface(i)
	} else {
		err = ipv6.NewPacketConn(conn).SetMulticastInterface(i)
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", i.Name, err)
	}
	var receiving sync.WaitGroup
	defer receiving.Wait()
	receiving.Go(func() { a.receive(conn, i.Name) })
	defer conn.Close() // this ends receive

	sent, pause := false, min(timeout/4, time.Second)
	for {
		text, err := a.questions().Pack()
		if err != nil {
			return err
		}
		_, err = conn.WriteToUDP(text, group)
		wait := pause
		if err == nil {
			sent, pause = true, 2*pause
		} else {
			wait = min(50*time.Millisecond, pause) // a new interface may lack a route for multicast at first
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			if !sent && err != nil {
				return fmt.Errorf("interface %s: %w; if the machine has no route for multicast, add one: ip route add 224.0.0.0/4 dev %s", i.Name, err, i.Name)
			}
			return nil
		}
	}
}

// receive takes the answers that arrive at conn until conn is closed.
func (a *answers) receive(conn *net.UDPConn, zone string) {
	packet := make([]byte, 1<<16)
	for {
		n, _, err := conn.ReadFromUDP(packet)
		if err != nil {
			return
		}
		var m dns.Msg
		if m.Unpack(packet[:n]) == nil && m.Response {
			a.take(&m, zone)
		}
	}
}

// answers has the records that have arrived. Any machine can send any answer, and any number, so they are bounded.
type answers struct {
	mu        sync.Mutex              // guards the fields below
	instances map[string]*instance    // by name, in lower case
	hosts     map[string][]netip.Addr // by name, in lower case
}

func newAnswers() *answers {
	return &answers{instances: map[string]*instance{}, hosts: map[string][]netip.Addr{}}
}

// instance is a server as described by its records.
type instance struct {
	host   string
	port   int
	fields []string
}

const maxAddresses = 32 // per server

// instanceEnd is the end of an instance's name, after the server's id.
const instanceEnd = "." + Service + "." + domain

// questions returns questions for all servers, and for the missing records of servers that are known.
func (a *answers) questions() *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(Service+"."+domain, dns.TypePTR)
	m.RecursionDesired = false
	add := func(name string, types ...uint16) {
		for _, t := range types {
			if len(m.Question) < 20 { // so that the questions fit into a packet
				m.Question = append(m.Question, dns.Question{Name: name, Qtype: t, Qclass: dns.ClassINET})
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, s := range a.instances {
		switch {
		case s.host == "":
			add(name, dns.TypeSRV, dns.TypeTXT)
		case len(a.hosts[s.host]) == 0:
			add(s.host, dns.TypeA, dns.TypeAAAA)
		}
	}
	return m
}

// take adds the records of a message that arrived on an interface.
func (a *answers) take(m *dns.Msg, zone string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := func(name string) *instance {
		name = strings.ToLower(name)
		id, ours := strings.CutSuffix(name, instanceEnd)
		if !ours || !plain.MatchString(id) {
			return nil
		}
		if a.instances[name] == nil && len(a.instances) < maxFound {
			a.instances[name] = &instance{}
		}
		return a.instances[name]
	}
	address := func(host string, ip net.IP) {
		of, ok := netip.AddrFromSlice(ip)
		if of = of.Unmap(); of.Is6() && (of.IsLinkLocalUnicast() || of.IsLinkLocalMulticast()) {
			of = of.WithZone(zone)
		}
		host = strings.ToLower(host)
		if list, is := a.hosts[host]; ok && (is || len(a.hosts) < maxFound) && len(list) < maxAddresses && !slices.Contains(list, of) {
			a.hosts[host] = append(list, of)
		}
	}
	for _, r := range slices.Concat(m.Answer, m.Extra) {
		switch r := r.(type) {
		case *dns.PTR:
			if strings.EqualFold(r.Hdr.Name, Service+"."+domain) {
				known(r.Ptr)
			}
		case *dns.SRV:
			if s := known(r.Hdr.Name); s != nil {
				s.host, s.port = strings.ToLower(r.Target), int(r.Port)
			}
		case *dns.TXT:
			if s := known(r.Hdr.Name); s != nil {
				s.fields = r.Txt
			}
		case *dns.A:
			address(r.Hdr.Name, r.A)
		case *dns.AAAA:
			address(r.Hdr.Name, r.AAAA)
		}
	}
}

// found returns the servers whose records are complete. It leaves out malformed parts.
func (a *answers) found() []Found {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []Found{}
	for name, s := range a.instances {
		f := Found{ID: strings.TrimSuffix(name, instanceEnd), Port: s.port, Path: "/"}
		for _, field := range s.fields {
			switch name, value, _ := strings.Cut(field, "="); {
			case name == "path" && pathForm.MatchString(value):
				f.Path = value
			case name == "version" && plain.MatchString(value):
				f.Version = value
			case name == "tls":
				f.TLS = value == "1"
			}
		}
		for _, ip := range a.hosts[s.host] {
			f.Addresses = append(f.Addresses, netip.AddrPortFrom(ip, uint16(s.port)).String())
		}
		if s.port == 0 || len(f.Addresses) == 0 {
			continue
		}
		slices.SortFunc(f.Addresses, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
		scheme := "http://"
		if f.TLS {
			scheme = "https://"
		}
		f.URL = scheme + strings.Replace(f.Addresses[0], "%", "%25", 1) + strings.TrimRight(f.Path, "/")
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Found) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// families reports whether an interface has IPv4 and IPv6 addresses.
func families(i *net.Interface) (v4, v6 bool) {
	for _, a := range addressesOf(i) {
		v4, v6 = v4 || a.Is4(), v6 || a.Is6()
	}
	return v4, v6
}

var (
	plain    = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._+-]{0,99}$`)
	pathForm = regexp.MustCompile(`^/[0-9A-Za-z._~/-]{0,199}$`)
)

// rank orders addresses by the likelihood that a connection succeeds: IPv4, then IPv6, and last the addresses that need
// a zone.
func rank(address string) int {
	a, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || a.Addr().Zone() != "":
		return 2
	case a.Addr().Is4():
		return 0
	}
	return 1
}
