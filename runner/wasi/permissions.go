package wasi

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job/handler"
)

// permissions lists what a guest may do, in the form that handler.CheckPermission accepts.
type permissions []string

// missing returns the first required permission that is not granted, or "".
func missing(required, grants []string) string {
	for _, p := range required {
		if !handler.Permits(grants, p) {
			return p
		}
	}
	return ""
}

// checkPermissions checks the number and the form of permissions.
func checkPermissions(list []string) error {
	if len(list) > handler.MaxPermissions {
		return fmt.Errorf("there are %d permissions; the maximum is %d", len(list), handler.MaxPermissions)
	}
	for _, p := range list {
		if err := handler.CheckPermission(p); err != nil {
			return err
		}
	}
	return nil
}

func (p permissions) proc() bool { return slices.Contains(p, "proc:read:*") }

func (p permissions) extension(name string) bool { return handler.Permits(p, "extension:"+name) }

// http reports whether the guest may send any HTTP requests.
func (p permissions) http() bool {
	return slices.ContainsFunc(p, func(s string) bool { return strings.HasPrefix(s, "http:") })
}

// host returns nil if the guest may send requests to the URL's host, or the reason why not.
func (p permissions) host(to *url.URL) error {
	name := strings.ToLower(strings.TrimSuffix(to.Hostname(), "."))
	port := to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[to.Scheme]
	}
	for _, host := range []string{name, to.Host, net.JoinHostPort(name, port)} {
		if handler.Permits(p, "http:"+host) {
			return nil
		}
	}
	return fmt.Errorf("the handler has no permission for requests to %s (http:%s)", name, name)
}
