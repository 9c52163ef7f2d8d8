package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// guard refuses what must not reach a handler, before anything of the body is read. A server on loopback is within reach of every
// web page that its user has open: a page can post to it, and with a name that resolves to 127.0.0.1 it can read the answers. Hence
// the Host must be one that no foreign name can claim, and what a browser says about the origin of a request is believed.
func (s *Server) guard(c echo.Context) error {
	r := c.Request()
	if !s.hostAllowed(r) {
		return &problem{status: http.StatusForbidden, code: "forbidden_host",
			detail: fmt.Sprintf("the Host header names %q, which is neither a loopback address nor a name given by --host", r.Host)}
	}
	if origin := r.Header[echo.HeaderOrigin]; len(origin) > 0 && !sameOrigin(origin, r.Host) {
		return &problem{status: http.StatusForbidden, code: "forbidden_origin",
			detail: "a web page of another origin must not use this server"}
	}
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 && (len(site) > 1 || site[0] != "same-origin" && site[0] != "none") {
		return &problem{status: http.StatusForbidden, code: "forbidden_origin",
			detail: "a web page of another site must not use this server"}
	}
	// Names and ids keep to an alphabet that needs no escape; an escaped spelling would be a second name for the same queue.
	if strings.IndexByte(r.URL.EscapedPath(), '%') >= 0 {
		return badRequest("", "a path holds no % escapes and no bytes that want one")
	}
	if methods, ok := s.literal[r.URL.Path]; ok && !slices.Contains(methods, r.Method) && r.Method != http.MethodOptions {
		return methodNotAllowed(strings.Join(methods, ", "))
	}
	return nil
}

// hostAllowed reports whether the Host header is a literal loopback address, localhost, a configured name, or the literal
// address that the connection came in by. The port is of no concern: forwarded ports differ.
func (s *Server) hostAllowed(r *http.Request) bool {
	host := r.Host
	if strings.HasSuffix(host, "]") || strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		} else {
			host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		if addr.IsLoopback() {
			return true
		}
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
			return local.AddrPort().Addr().Unmap().WithZone("") == addr || s.hosts[host]
		}
	}
	return s.hosts[host] || s.hosts[strings.ToLower(host)]
}

// sameOrigin reports whether the origin is that of a page which this server itself delivered.
func sameOrigin(origin []string, host string) bool {
	if len(origin) != 1 {
		return false
	}
	u, err := url.Parse(origin[0])
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}

// configuredHosts checks the names given by --host and adds localhost, which resolves to loopback by RFC 6761.
func configuredHosts(names []string) (map[string]bool, error) {
	hosts := map[string]bool{"localhost": true}
	for _, name := range names {
		u, err := url.Parse("http://" + name)
		if err != nil || name == "" || u.Host != name || u.Port() != "" || strings.HasSuffix(name, ":") {
			return nil, fmt.Errorf("host %q is not the name of a host, without a port", name)
		}
		hosts[strings.ToLower(strings.Trim(name, "[]"))] = true
	}
	return hosts, nil
}
