package handler

import (
	"fmt"
	"strings"
)

// The bounds of the permissions and extensions of a handler of kind wasi.
const (
	MaxPermissions     = 100
	MaxPermissionBytes = 300 // a host name has at most 253
	MaxExtensionBytes  = 128
)

// CheckPermission returns an error that describes an invalid permission, or nil. The permissions are:
//
//	proc:read:*                      the guest may read files of /proc
//	http:*, http:HOST                the guest may send HTTP requests to all hosts, or to one; HOST may have a port
//	extension:*, extension:NAME      the guest may use all extensions, or one
func CheckPermission(text string) error {
	if len(text) > MaxPermissionBytes {
		return fmt.Errorf("a permission has %d bytes; the maximum is %d", len(text), MaxPermissionBytes)
	}
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "proc":
		if rest == "read:*" {
			return nil
		}
	case "http":
		if rest == "*" || rest != "" && strings.Trim(strings.ToLower(rest), "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]") == "" {
			return nil
		}
	case "extension":
		if rest == "*" || CheckExtension(rest) == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is no permission; the permissions are proc:read:*, http:*, http:HOST, extension:* and extension:NAME", text)
}

// CheckExtension returns an error for an invalid extension name, or nil. A name has letters, digits and _ . -
func CheckExtension(name string) error {
	switch {
	case name == "" || len(name) > MaxExtensionBytes:
		return fmt.Errorf("the name of an extension must have 1 to %d bytes, not %d", MaxExtensionBytes, len(name))
	case strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_.-") != "":
		return fmt.Errorf("the name of an extension must have letters, digits and _ . - only, not %q", name)
	}
	return nil
}

// Permits reports whether a list of permissions contains the permission, or the wildcard that includes it.
func Permits(list []string, permission string) bool {
	kind, _, _ := strings.Cut(permission, ":")
	for _, p := range list {
		if p == permission || kind == "http" && strings.EqualFold(p, permission) || p == kind+":*" && kind != "proc" {
			return true
		}
	}
	return false
}
