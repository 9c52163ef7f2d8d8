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

// services are the names of the services as which a server is announced.
var services = []string{Service, "_serval_queue._tcp", "_serval:queue._tcp"}

const (
	// addressesFor is how long a responder uses an interface's addresses before it reads them again.
	addressesFor = 5 * time.Second
	domain       = "local."
)

// Server describes the server to announce.
type Server struct {
	ID      string // one DNS label, such as a UUID
	Port    int    // HTTP port
	Path    string // path of the API, such as /
	Version string
	TLS     bool // clients connect by TLS
	// Addr is the address that the server listens on. If it is ::, each interface announces all its addresses. If it is
	// 0.0.0.0, each announces only its IPv4 addresses.
	Addr netip.Addr
	// Interfaces are the names of the interfaces on which to announce the server. Empty means all interfaces that are
	// up and can multicast, except loopback.
	Interfaces []string
	// With Wait, Announce returns no error if the server cannot be announced yet, because a machine may start it before
	// its network.
	Wait   bool
	Logger *slog.Logger // nil discards the log
}

// Announcement answers queries for a server until Close. Every few seconds, it looks for interfaces that have appeared,
// disappeared or changed.
type Announcement struct {
	server  Server
	machine machine
	stop    chan struct{}
	stopped sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	responders map[link]responder
	failed     string // the last failure, to log each only once
}

// lookEvery is the time between two looks for changed interfaces.
const lookEvery = 2 * time.Second

// link is an interface with the families of addresses that its responder has joined. If either changes, the interface
// needs a new responder.
type link struct {
	index  int
	name   string
	v4, v6 bool
}

// responder answers queries on one interface.
type responder interface{ Shutdown() error }

// machine has the functions of the system that an announcement uses. Tests replace them.
type machine struct {
	choose  func(names []string) ([]net.Interface, error)
	address func(*net.Interface) []netip.Addr
	respond func(*zone) (responder, error)
}

// system returns the functions of the real system.
func system() machine {
	return machine{choose, addressesOf, func(z *zone) (responder, error) {
		// The library logs each malformed packet, so its log is discarded.
		return mdns.NewServer(&mdns.Config{Zone: z, Iface: &z.of, Logger: log.New(io.Discard, "", 0)})
	}}
}

// Announce begins to answer queries for a server. It returns an error if the server cannot be announced on any
// interface, or if an interface in s.Interfaces does not exist, is down, or lacks an address that the server listens
// on. With s.Wait, none of these is an error.
func Announce(s Server) (*Announcement, error) { return announce(s, system()) }

func announce(s Server, m machine) (*Announcement, error) {
	if strings.ContainsAny(s.ID, ".\\") || s.ID == "" || len(s.ID) > 63 {
		return nil, fmt.Errorf("announce: %q is not a DNS label", s.ID)
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Announcement{server: s, machine: m, stop: make(chan struct{}), responders: map[link]responder{}}
	err := a.look()
	if err != nil && !s.Wait && (len(a.responders) == 0 || len(s.Interfaces) > 0) {
		return nil, errors.Join(fmt.Errorf("announce: %w", err), a.Close())
	}
	a.report(err)
	a.stopped.Go(a.watch)
	return a, nil
}

// watch looks every lookEvery until Close.
func (a *Announcement) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.report(a.look())
		case <-a.stop:
			return
		}
	}
}

// report logs a failure when it begins or changes.
func (a *Announcement) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != a.failed && text != "" {
		a.server.Logger.Warn("the server is not announced on all interfaces of the local network; it looks for changes", "error", err)
	}
	a.failed = text
}

// look starts responders on interfaces that are new or have changed, and stops those on interfaces that are gone. It
// returns an error that names the interfaces on which the server cannot be announced now.
func (a *Announcement) look() (err error) {
	names := a.server.Interfaces
	var chosen []net.Interface
	if len(names) == 0 {
		chosen, err = a.machine.choose(nil)
	}
	for _, name := range names { // separately, so that a missing interface does not affect the rest
		one, failed := a.machine.choose([]string{name})
		chosen, err = append(chosen, one...), errors.Join(err, failed)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := map[link]*zone{}
	for _, i := range chosen {
		z := &zone{server: a.server, of: i, read: a.machine.address}
		at := link{index: i.Index, name: i.Name}
		for _, ip := range z.addresses() {
			at.v4, at.v6 = at.v4 || ip.To4() != nil, at.v6 || ip.To4() == nil
		}
		switch {
		case at.v4 || at.v6:
			wanted[at] = z
		case len(names) > 0:
			err = errors.Join(err, fmt.Errorf("interface %s has no address that the server listens on (%s)", i.Name, a.server.Addr))
		}
	}
	for at, r := range a.responders {
		if wanted[at] == nil {
			err = errors.Join(err, r.Shutdown())
			delete(a.responders, at)
		}
	}
	for at, z := range wanted {
		if a.responders[at] != nil {
			continue
		}
		r, failed := a.machine.respond(z)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("interface %s: %w", at.name, failed))
			continue
		}
		a.responders[at] = r
		a.server.Logger.Info("announced on the local network by multicast DNS", "id", a.server.ID, "interface", at.name)
	}
	if err == nil && len(a.responders) == 0 {
		err = fmt.Errorf("no interface that can multicast has an address that the server listens on (%s)", a.server.Addr)
	}
	return err
}

// Interfaces returns the names of the interfaces on which the server is announced, in order.
func (a *Announcement) Interfaces() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at := range a.responders {
		names = append(names, at.name)
	}
	slices.Sort(names)
	return names
}

// Close ends the announcement. Other machines keep the records for up to two minutes.
func (a *Announcement) Close() error {
	close(a.stop)
	a.stopped.Wait()
	var err error
	for _, r := range a.responders {
		err = errors.Join(err, r.Shutdown())
	}
	return err
}

// zone has a server's records for the responder of one interface, with that interface's addresses.
type zone struct {
	server Server
	of     net.Interface
	read   func(*net.Interface) []netip.Addr // addressesOf

	mu    sync.Mutex // guards the fields below
	asked time.Time  // when known was read
	known []net.IP   // the addresses
}

// addresses returns the interface's addresses at which clients can reach the server.
func (z *zone) addresses() []net.IP {
	z.mu.Lock()
	defer z.mu.Unlock()
	if time.Since(z.asked) >= addressesFor {
		z.asked = time.Now()
		z.known = reachable(z.read(&z.of), z.server.Addr)
	}
	return z.known
}

// reachable returns the addresses at which clients can reach a listener that listens on the address listener.
func reachable(addresses []netip.Addr, listener netip.Addr) (ips []net.IP) {
	listener = listener.Unmap()
	for _, a := range addresses {
		switch {
		case listener.IsUnspecified() && (listener.Is6() || a.Is4()), a.WithZone("") == listener.WithZone(""):
			ips = append(ips, a.AsSlice())
		}
	}
	// Some programs keep only the last address that they receive, so addresses that need a zone come first.
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
	if len(ips) == 0 { // without addresses, the library would choose some
		return nil
	}
	host := strings.ToLower(z.server.ID) + "." + domain
	txt := []string{"http_port=" + strconv.Itoa(z.server.Port), "path=" + z.server.Path, "version=" + z.server.Version}
	if z.server.TLS {
		txt = append(txt, "tls=1")
	}
	for _, name := range services {
		s, err := mdns.NewMDNSService(strings.ToLower(z.server.ID), name, domain, host, z.server.Port, ips, txt)
		if err != nil {
			z.server.Logger.Warn("cannot answer a query by multicast DNS", "service", name, "error", err)
			return nil
		}
		records = append(records, s.Records(q)...)
		if q.Name == host { // the host's records are the same for each service
			break
		}
	}
	return slices.Clip(records)
}
