package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// checkProfiles refuses an address for profiles that other machines can connect to.
func checkProfiles(address string) error {
	if at, err := netip.ParseAddrPort(address); address != "" && (err != nil || !at.Addr().IsLoopback()) {
		return terminal.Usagef("--pprof %q is not a loopback address with a port, like 127.0.0.1:6060", address)
	}
	return nil
}

// serveProfiles serves net/http/pprof on a separate loopback address, since profiles show the contents of memory.
func serveProfiles(address string) (*http.Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w for profiles: %w", ErrListen, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(l) // ends with Close
	return server, nil
}
