package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// probes are the paths that need no Host. Load balancers probe with HTTP/1.0, without a Host or with an empty one. No
// browser can send such requests, so they do not belong to a page whose name resolves to this server.
var probes = map[string]bool{"/": true, "/ping": true, "/healthz": true, "/readyz": true}

// guard refuses requests that must not reach a handler, before the server reads their body. Any web page that a user
// has open can send requests to a server on loopback. If the page's own name resolves to 127.0.0.1, the page can also
// read the answers. So guard accepts only a Host that a foreign site cannot have, and refuses requests whose Origin or
// Sec-Fetch-Site header names another site. Two kinds of requests pass: those of the origins of --allow-origin, which
// carry keys and never cookies, and a person's way back from an issuer of tokens.
func (s *Server) guard(c echo.Context) error {
	r := c.Request()
	if r.Host == "" && !s.hosts.any {
		if !probes[r.URL.Path] {
			return &Problem{Status: http.StatusForbidden, Code: "forbidden_host",
				Detail: "the request has no Host header, or an empty one; send one with the address of this server, or localhost, or a name of --allow-host; only OPTIONS /, /ping, /healthz and /readyz are answered without it"}
		}
	} else if !s.hosts.allow(r.Host) {
		return &Problem{Status: http.StatusForbidden, Code: "forbidden_host",
			Detail: fmt.Sprintf("the Host header names %q, which is neither an IP address nor localhost; to allow this name, start the server with --allow-host %s (or --allow-host '*' for every name)",
				Shortened(r.Host), hostName(Shortened(r.Host)))}
	}
	allowed := false
	if origin := r.Header[echo.HeaderOrigin]; len(origin) > 0 && !sameOrigin(origin, r.Host) {
		if allowed = s.origins.allow(c, origin); !allowed {
			return &Problem{Status: http.StatusForbidden, Code: "forbidden_origin",
				Detail: "a web page of another origin must not use this server; --allow-origin permits one to use it with keys"}
		}
	}
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 && (len(site) > 1 || site[0] != "same-origin" && site[0] != "none") && !allowed && !s.comesBack(r) {
		return &Problem{Status: http.StatusForbidden, Code: "forbidden_origin",
			Detail: "a web page of another site must not use this server"}
	}
	if strings.IndexByte(r.URL.EscapedPath(), '%') >= 0 {
		return BadRequest("", "a path can have only the characters A-Z a-z 0-9 . _ : - and /, escaped or not; names and ids need no others")
	}
	if methods, ok := s.literal[r.URL.Path]; ok && !slices.Contains(methods, r.Method) && r.Method != http.MethodOptions {
		return MethodNotAllowed(strings.Join(methods, ", "))
	}
	return nil
}

// oneSpelling decodes the escapes of characters that names and ids can have: a:b and a%3Ab are the same queue, and
// client libraries send both. It keeps other escapes, and the guard refuses them. It runs before the router.
func (s *Server) oneSpelling(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if u := c.Request().URL; strings.IndexByte(u.RawPath, '%') >= 0 {
			if path, ok := unescaped(u.RawPath); ok {
				u.Path, u.RawPath = path, ""
			}
		}
		if s.Spell != nil {
			s.Spell(c.Request().URL)
		}
		return next(c)
	}
}

// unescaped decodes the escapes of a path. ok is false if an escaped character cannot be in a name.
func unescaped(path string) (text string, ok bool) {
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b = append(b, path[i])
			continue
		}
		if i+2 >= len(path) {
			return "", false
		}
		n, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
		if err != nil || !job.NameByte(byte(n)) {
			return "", false
		}
		b = append(b, byte(n))
		i += 2
	}
	return string(b), true
}

// allowedHosts are the names that a request's Host can have in addition to IP addresses and localhost.
type allowedHosts struct {
	any    bool
	names  map[string]bool
	suffix []string // each begins with a dot
}

// allow reports whether requests with this Host are served. An IP address is always allowed: an attacker can make the
// name of a site resolve to this server, but cannot do this with an address. So a server in a container also works if
// its clients use the address of another machine. The port is ignored, because a forwarded port differs from the port
// of the server.
func (h *allowedHosts) allow(host string) bool {
	name := hostName(host)
	if _, err := netip.ParseAddr(name); err == nil || h.any {
		return true
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".") // a fully qualified name can end in a dot
	return name == "localhost" || h.names[name] || slices.ContainsFunc(h.suffix, func(s string) bool {
		return strings.HasSuffix(name, s) && len(name) > len(s)
	})
}

// hostName returns a Host without the port and the brackets of an IPv6 address.
func hostName(host string) string {
	if strings.HasSuffix(host, "]") || strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
		if name, _, err := net.SplitHostPort(host); err == nil {
			return name
		}
		return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return host
}

// sameOrigin reports whether the origin is a page of this server.
func sameOrigin(origin []string, host string) bool {
	if len(origin) != 1 {
		return false
	}
	u, err := url.Parse(origin[0])
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}

// configuredHosts reads the names given by --allow-host.
func configuredHosts(names []string) (h allowedHosts, err error) {
	h.names = map[string]bool{}
	for _, name := range names {
		if name == "*" {
			h.any = true
			continue
		}
		plain, below := strings.CutPrefix(name, "*.")
		u, err := url.Parse("http://" + plain)
		if err != nil || plain == "" || u.Host != plain || u.Port() != "" || strings.HasSuffix(plain, ":") || strings.Contains(plain, "*") {
			return h, fmt.Errorf("--allow-host %q must be the name of a host without a port, such as queue.example, *.example or *", name)
		}
		plain = strings.ToLower(strings.Trim(plain, "[]"))
		if below {
			h.suffix = append(h.suffix, "."+plain)
		} else {
			h.names[plain] = true
		}
	}
	return h, nil
}
