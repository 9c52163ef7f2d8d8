package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/oidc"
)

// allowedOrigins are the origins of --allow-origin. Their pages use the server with keys. The server never sends
// Access-Control-Allow-Credentials, and ignores the cookies of their requests.
type allowedOrigins map[string]bool

// The headers of CORS: those of requests that pages may set, and those of answers that pages may read.
const (
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsHeaders = "Authorization, Content-Type, Content-Encoding, Daybook-By, Daybook-Min-Seq, Daybook-Session, " +
		"Daybook-Session-Number, Daybook-Session-Slot, Idempotency-Key, If-Match, If-None-Match, Range, " +
		"Tus-Resumable, Upload-Length, Upload-Metadata, Upload-Offset"
	corsExposed = "Daybook-Code, Daybook-Exit-Code, Daybook-Fileset-Version, Daybook-Handler, Daybook-Output-Addr, Daybook-Seq, Daybook-Status, ETag, " +
		"Idempotency-Replayed, Location, Retry-After, Content-Range, Tus-Resumable, Upload-Length, Upload-Offset"
	corsMaxAge = "600"
)

// allow reports whether pages of an origin may use the server, and then says so to the browser.
func (o allowedOrigins) allow(c echo.Context, origin []string) bool {
	if len(origin) != 1 || !o[origin[0]] {
		return false
	}
	h := c.Response().Header()
	h.Set(echo.HeaderAccessControlAllowOrigin, origin[0])
	h.Add(echo.HeaderVary, echo.HeaderOrigin)
	h.Set(echo.HeaderAccessControlExposeHeaders, corsExposed)
	return true
}

// preflight answers the question of a browser whether a page of an allowed origin may send a request. The guard has passed it.
func (s *Server) preflight(c echo.Context) (answered bool, err error) {
	r, h := c.Request(), c.Response().Header()
	if r.Method != http.MethodOptions || r.Header.Get(echo.HeaderAccessControlRequestMethod) == "" || h.Get(echo.HeaderAccessControlAllowOrigin) == "" {
		return false, nil
	}
	h.Set(echo.HeaderAccessControlAllowMethods, corsMethods)
	h.Set(echo.HeaderAccessControlAllowHeaders, corsHeaders)
	h.Set(echo.HeaderAccessControlMaxAge, corsMaxAge)
	return true, c.NoContent(http.StatusNoContent)
}

// configuredOrigins reads the values of --allow-origin.
func configuredOrigins(list []string) (allowedOrigins, error) {
	all := allowedOrigins{}
	for _, text := range list {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Scheme+"://"+u.Host != text || strings.ToLower(text) != text ||
			strings.Contains(text, "*") || strings.HasSuffix(text, ":") || u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" {
			return nil, fmt.Errorf("--allow-origin %q must be an origin as browsers send it: http or https, a host in lower case, and the port if it is not that of the scheme, such as https://board.example or http://localhost:3000", text)
		}
		all[text] = true
	}
	return all, nil
}

// CheckOrigins returns an error unless each text is an origin for Options.Origins.
func CheckOrigins(list []string) error {
	_, err := configuredOrigins(list)
	return err
}

// ReturnPath is where an issuer of tokens sends people back to.
const ReturnPath = oidc.ReturnPath

// comesBack reports whether a browser follows the link of another site to ReturnPath as a whole page. This passes the guard, because
// the request proves by a cookie that it ends a log-in which began here.
func (s *Server) comesBack(r *http.Request) bool {
	mode, dest := r.Header["Sec-Fetch-Mode"], r.Header["Sec-Fetch-Dest"]
	return r.Method == http.MethodGet && r.URL.Path == ReturnPath && len(mode) == 1 && mode[0] == "navigate" && len(dest) == 1 && dest[0] == "document" &&
		len(r.Header[echo.HeaderOrigin]) == 0
}
