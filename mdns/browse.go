package mdns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/mdns"
)

const (
	// DefaultTimeout is how long Browse listens for answers.
	DefaultTimeout = 2 * time.Second
	// maxFound bounds the number of servers that Browse returns, because any machine in the segment can announce any
	// number.
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
}

// Query is what Browse looks for.
type Query struct {
	Timeout    time.Duration // 0: DefaultTimeout
	Interfaces []string      // names of interfaces; empty: all that are up and can multicast, except for loopback
}

// Browse sends a query on each interface and returns the servers that answer within the time, in the order of their
// ids. It ignores answers of other programs. The answers are not authenticated, and the servers may have stopped.
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
	// The library changes entries after it has sent them, so they are read only after it has returned. It drops entries
	// for which the channel has no room.
	entries := make(chan *mdns.ServiceEntry, maxFound)
	failed := make([]error, len(interfaces))
	var queries sync.WaitGroup
	for at, i := range interfaces {
		v4, v6 := families(&i)
		if !v4 && !v6 {
			continue
		}
		queries.Go(func() {
			failed[at] = ask(ctx, &mdns.QueryParam{
				Service: Service, Domain: "local", Timeout: q.Timeout, Interface: &i, Entries: entries, DisableIPv4: !v4, DisableIPv6: !v6,
				Logger: log.New(io.Discard, "", 0), // the library logs each malformed packet
			})
		})
	}
	queries.Wait()
	close(entries)
	found := map[string]*Found{}
	for e := range entries {
		take(found, e)
	}
	if err := errors.Join(failed...); err != nil && len(found) == 0 {
		return nil, fmt.Errorf("browse: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("browse: %w", err)
	}
	list := make([]Found, 0, len(found))
	for _, f := range found {
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b Found) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// ask sends a query; the answers go to p.Entries. An interface that was just brought up may have no route for multicast
// yet. So ask repeats a query that cannot be sent, as long as half of its time is left.
func ask(ctx context.Context, p *mdns.QueryParam) error {
	for began := time.Now(); ; {
		err := mdns.QueryContext(ctx, p)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Since(began) >= p.Timeout/2 {
			return fmt.Errorf("interface %s: %w; if the machine has no route for multicast, add one: ip route add 224.0.0.0/4 dev %s", p.Interface.Name, err, p.Interface.Name)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// families reports whether an interface has IPv4 and IPv6 addresses.
func families(i *net.Interface) (v4, v6 bool) {
	for _, a := range addressesOf(i) {
		v4, v6 = v4 || a.Is4(), v6 || a.Is6()
	}
	return v4, v6
}

// take adds an answer to found. It ignores answers of other services and malformed ones, because any machine can send
// any answer.
func take(found map[string]*Found, e *mdns.ServiceEntry) {
	id, ours := strings.CutSuffix(strings.ToLower(e.Name), "."+Service+"."+domain)
	if !ours || !plain.MatchString(id) || e.Port < 1 || e.Port > math.MaxUint16 {
		return
	}
	f := found[id]
	if f == nil {
		f = &Found{ID: id, Port: e.Port, Path: "/"}
		found[id] = f
	}
	for _, field := range e.InfoFields {
		switch name, value, _ := strings.Cut(field, "="); {
		case name == "path" && pathForm.MatchString(value):
			f.Path = value
		case name == "version" && plain.MatchString(value):
			f.Version = value
		}
	}
	var ips []netip.Addr
	if a, ok := netip.AddrFromSlice(e.AddrV4); ok {
		ips = append(ips, a.Unmap())
	}
	if e.AddrV6IPAddr != nil {
		if a, ok := netip.AddrFromSlice(e.AddrV6IPAddr.IP); ok {
			ips = append(ips, a.WithZone(e.AddrV6IPAddr.Zone))
		}
	}
	for _, a := range ips {
		if text := netip.AddrPortFrom(a, uint16(f.Port)).String(); !slices.Contains(f.Addresses, text) {
			f.Addresses = append(f.Addresses, text)
		}
	}
	slices.SortStableFunc(f.Addresses, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	if len(f.Addresses) == 0 {
		delete(found, id)
		return
	}
	f.URL = "http://" + strings.Replace(f.Addresses[0], "%", "%25", 1) + strings.TrimRight(f.Path, "/")
}

var (
	plain    = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._+-]{0,99}$`)
	pathForm = regexp.MustCompile(`^/[0-9A-Za-z._~/-]{0,199}$`)
)

// rank orders addresses by how likely a connection succeeds: IPv4 first, then IPv6, and last the addresses that need a
// zone.
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
