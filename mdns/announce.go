package mdns

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/mdns"
	"github.com/miekg/dns"
)

// Service is the service that Browse looks for.
const Service = "_daybook._tcp"

// services are the names under which a server is announced.
var services = []string{Service, "_serval_queue._tcp", "_serval:queue._tcp"}

const (
	// addressesFor is how long a responder uses the addresses of an interface before it asks the kernel again.
	addressesFor = 5 * time.Second
	domain       = "local."
)

// Server describes the server to announce.
type Server struct {
	ID      string // one DNS label, such as a UUID
	Port    int    // of HTTP
	Path    string // of the API, such as /
	Version string
	// Addr is the address that the server listens on. For :: the server is announced on each interface with the
	// addresses of that interface; for 0.0.0.0, with its IPv4 addresses only.
	Addr netip.Addr
	// Interfaces are the names of the interfaces on which to announce the server. Empty: all interfaces that are up and
	// can multicast, except for loopback.
	Interfaces []string
	Logger     *slog.Logger // nil discards the log
}

// Announcement answers queries for a server until Close.
type Announcement struct {
	responders []*mdns.Server
	Interfaces []string // names of the interfaces on which the server is announced
}

// Announce begins to answer queries for a server. It returns an error if the server cannot be announced on any
// interface. It also returns an error if an interface in s.Interfaces does not exist, is down, or has no address that
// the server listens on.
func Announce(s Server) (*Announcement, error) {
	if strings.ContainsAny(s.ID, ".\\") || s.ID == "" || len(s.ID) > 63 {
		return nil, fmt.Errorf("announce: %q is not a DNS label", s.ID)
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	interfaces, err := choose(s.Interfaces)
	if err != nil {
		return nil, fmt.Errorf("announce: %w", err)
	}
	a := &Announcement{}
	for _, i := range interfaces {
		z := &zone{server: s, of: i}
		if len(z.addresses()) == 0 {
			if len(s.Interfaces) > 0 {
				err = errors.Join(err, fmt.Errorf("interface %s has no address that the server listens on (%s)", i.Name, s.Addr))
			}
			continue
		}
		// The library logs each malformed packet, so its log is discarded.
		responder, failed := mdns.NewServer(&mdns.Config{Zone: z, Iface: &i, Logger: log.New(io.Discard, "", 0)})
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("interface %s: %w", i.Name, failed))
			continue
		}
		a.responders, a.Interfaces = append(a.responders, responder), append(a.Interfaces, i.Name)
	}
	if err == nil && len(a.responders) == 0 {
		err = fmt.Errorf("no interface that can multicast has an address that the server listens on (%s)", s.Addr)
	}
	if err != nil && (len(a.responders) == 0 || len(s.Interfaces) > 0) {
		return nil, errors.Join(fmt.Errorf("announce: %w", err), a.Close())
	}
	if err != nil {
		s.Logger.Warn("the server is not announced on all interfaces", "error", err)
	}
	return a, nil
}

// Close ends the announcement. Other machines keep the records for up to two minutes.
func (a *Announcement) Close() error {
	var err error
	for _, r := range a.responders {
		err = errors.Join(err, r.Shutdown())
	}
	return err
}

// zone is the records of a server for the responder of one interface, with the addresses of that interface.
type zone struct {
	server Server
	of     net.Interface

	mu    sync.Mutex // guards the fields below
	asked time.Time  // when known was read
	known []net.IP   // the addresses
}

// addresses returns the addresses of the interface at which the server can be reached.
func (z *zone) addresses() []net.IP {
	z.mu.Lock()
	defer z.mu.Unlock()
	if time.Since(z.asked) >= addressesFor {
		z.asked = time.Now()
		z.known = reachable(addressesOf(&z.of), z.server.Addr)
	}
	return z.known
}

// reachable returns those of the addresses at which a listener can be reached, given the address that it listens on.
func reachable(addresses []netip.Addr, listener netip.Addr) (ips []net.IP) {
	listener = listener.Unmap()
	for _, a := range addresses {
		switch {
		case listener.IsUnspecified() && (listener.Is6() || a.Is4()), a.WithZone("") == listener.WithZone(""):
			ips = append(ips, a.AsSlice())
		}
	}
	// Some programs keep only the last address that they receive. So the addresses that need a zone are first.
	slices.SortStableFunc(ips, func(a, b net.IP) int {
		switch {
		case a.IsLinkLocalUnicast() == b.IsLinkLocalUnicast():
			return 0
		case a.IsLinkLocalUnicast():
			return -1
		}
		return 1
	})
	return ips
}

// Records returns the answers to a question. Names in DNS are case-insensitive.
func (z *zone) Records(q dns.Question) (records []dns.RR) {
	q.Name = strings.ToLower(q.Name)
	if !strings.HasSuffix(q.Name, domain) {
		return nil
	}
	ips := z.addresses()
	if len(ips) == 0 { // without addresses, the library would choose some itself
		return nil
	}
	host := strings.ToLower(z.server.ID) + "." + domain
	txt := []string{"http_port=" + strconv.Itoa(z.server.Port), "path=" + z.server.Path, "version=" + z.server.Version}
	for _, name := range services {
		s, err := mdns.NewMDNSService(strings.ToLower(z.server.ID), name, domain, host, z.server.Port, ips, txt)
		if err != nil {
			z.server.Logger.Warn("cannot answer a query by multicast DNS", "service", name, "error", err)
			return nil
		}
		records = append(records, s.Records(q)...)
		if q.Name == host { // the answers for the host are the same for each service
			break
		}
	}
	return slices.Clip(records)
}
