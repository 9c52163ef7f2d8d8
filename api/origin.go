package api

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

// guard refuses what must not reach a handler, before anything of the body is read. Every web page that a user has open
// can send requests to a server on loopback, and with a name that resolves to 127.0.0.1 it can read the answers. So the
// Host must be one that no foreign name can be, and the server believes what a browser says about the origin of a
// request.
func (s *Server) guard(c echo.Context) error {
	r := c.Request()
	if !s.hosts.allow(r.Host) {
		return &problem{status: http.StatusForbidden, code: "forbidden_host",
			detail: fmt.Sprintf("the Host header names %q, which is neither an IP address nor localhost; start the server with --allow-host %s to serve it (or --allow-host '*' for every name)",
				shortened(r.Host), hostName(shortened(r.Host)))}
	}
	if origin := r.Header[echo.HeaderOrigin]; len(origin) > 0 && !sameOrigin(origin, r.Host) {
		return &problem{status: http.StatusForbidden, code: "forbidden_origin",
			detail: "a web page of another origin must not use this server"}
	}
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 && (len(site) > 1 || site[0] != "same-origin" && site[0] != "none") {
		return &problem{status: http.StatusForbidden, code: "forbidden_origin",
			detail: "a web page of another site must not use this server"}
	}
	if strings.IndexByte(r.URL.EscapedPath(), '%') >= 0 {
		return badRequest("", "a path has the characters A-Z a-z 0-9 . _ : - and / only, as themselves or escaped; names and ids need no others")
	}
	if methods, ok := s.literal[r.URL.Path]; ok && !slices.Contains(methods, r.Method) && r.Method != http.MethodOptions {
		return methodNotAllowed(strings.Join(methods, ", "))
	}
	return nil
}

// oneSpelling removes escapes of characters that names and ids may have: a:b and a%3Ab are the same queue, and
// libraries send both. Other escapes stay, and the guard refuses them. It runs before the router.
func oneSpelling(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if u := c.Request().URL; strings.IndexByte(u.RawPath, '%') >= 0 {
			if path, ok := unescaped(u.RawPath); ok {
				u.Path, u.RawPath = path, ""
			}
		}
		return next(c)
	}
}

// unescaped decodes the escapes of a path; ok is false if one is of a character that no name has.
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

// allowedHosts are what a request's Host may name beside IP addresses and localhost.
type allowedHosts struct {
	any    bool
	names  map[string]bool
	suffix []string // each with its dot
}

// allow reports whether requests with this Host are served. An IP address is always allowed: a page can have the name
// of its own site resolve to this server, but not an address. That serves a server in a container, too, whose clients
// use the address of another machine. Ports do not count, since forwarded ports differ.
func (h *allowedHosts) allow(host string) bool {
	name := hostName(host)
	if _, err := netip.ParseAddr(name); err == nil || h.any {
		return true
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".") // a full name may end in a dot
	return name == "localhost" || h.names[name] || slices.ContainsFunc(h.suffix, func(s string) bool {
		return strings.HasSuffix(name, s) && len(name) > len(s)
	})
}

// hostName is a Host without port and brackets.
func hostName(host string) string {
	if strings.HasSuffix(host, "]") || strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
		if name, _, err := net.SplitHostPort(host); err == nil {
			return name
		}
		return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return host
}

// sameOrigin reports whether the origin is that of a page which this server itself delivered.
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
			return h, fmt.Errorf("--allow-host %q is not the name of a host without a port, like queue.example, *.example or *", name)
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
