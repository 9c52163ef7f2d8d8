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
	// addressesFor is how long the addresses of an interface are taken to be what they were, so that many queries ask the kernel seldom.
	addressesFor = 5 * time.Second
	domain       = "local."
)

// Server is what is announced.
type Server struct {
	ID      string // one DNS label, such as a UUID
	Port    int    // of HTTP
	Path    string // of the API, such as /
	Version string
	// Addr is the address that the server listens on. If it is unspecified (0.0.0.0 or ::), the server is announced on each interface with
	// the addresses of that interface; 0.0.0.0 with those of IPv4 only.
	Addr netip.Addr
	// Interfaces are the names of the interfaces to announce the server on. Empty: all that are up and can multicast.
	Interfaces []string
	Logger     *slog.Logger // nil: none
}

// Announcement is a server that is being announced.
type Announcement struct {
	responders []*mdns.Server
	Interfaces []string // where
}

// Announce answers queries until Close. It fails when the server cannot be announced on any interface, or when one that was named does not
// exist, is down, or has no address that the server listens on.
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
		responder, failed := mdns.NewServer(&mdns.Config{Zone: z, Iface: &i, Logger: log.New(io.Discard, "", 0)}) // it logs each malformed packet
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

// Close ends the announcement. Others remember the server for up to two minutes.
func (a *Announcement) Close() error {
	var err error
	for _, r := range a.responders {
		err = errors.Join(err, r.Shutdown())
	}
	return err
}

// zone is what a responder answers with: the server's records, with the addresses of one interface.
type zone struct {
	server Server
	of     net.Interface

	mu    sync.Mutex
	asked time.Time // for known
	known []net.IP
}

// addresses returns those that the server can be reached at through the interface.
func (z *zone) addresses() []net.IP {
	z.mu.Lock()
	defer z.mu.Unlock()
	if time.Since(z.asked) >= addressesFor {
		z.asked = time.Now()
		z.known = reachable(addressesOf(&z.of), z.server.Addr)
	}
	return z.known
}

// reachable returns the addresses at which a listener on the given address can be reached.
func reachable(addresses []netip.Addr, listener netip.Addr) (ips []net.IP) {
	listener = listener.Unmap()
	for _, a := range addresses {
		switch {
		case listener.IsUnspecified() && (listener.Is6() || a.Is4()), a.WithZone("") == listener.WithZone(""):
			ips = append(ips, a.AsSlice())
		}
	}
	// Programs that keep one address only keep the last, so the ones that need a zone come first.
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

// Records answers a question. Names of DNS are the same in capital and small letters.
func (z *zone) Records(q dns.Question) (records []dns.RR) {
	q.Name = strings.ToLower(q.Name)
	if !strings.HasSuffix(q.Name, domain) {
		return nil
	}
	ips := z.addresses()
	if len(ips) == 0 { // the library would look for some by itself
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
		if q.Name == host { // each service would answer for it
			break
		}
	}
	return slices.Clip(records)
}
