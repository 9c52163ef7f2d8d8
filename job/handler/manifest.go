package handler

import (
	"fmt"
	"strings"

	"github.com/daybookq/daybook/job/digest"
)

// checkManifest checks the fields of a handler of kind wasi.
func (d *Document) checkManifest() error {
	if _, err := digest.Parse(d.Binary); err != nil {
		return &FieldError{"binary", fmt.Sprintf("binary: %v", err)}
	}
	for _, f := range []struct {
		name, value string
		most        int
	}{
		{"name", d.Name, MaxManifestNameBytes}, {"namespace", d.Namespace, MaxNamespaceBytes}, {"version", d.Version, MaxVersionBytes}, {"description", d.Description, MaxDescriptionBytes},
	} {
		if len(f.value) > f.most {
			return wrong(f.name, "has %d bytes; the maximum is %d", len(f.value), f.most)
		}
	}
	for _, f := range []struct{ name, value string }{{"name", d.Name}, {"namespace", d.Namespace}} {
		if strings.Trim(strings.ToLower(f.value), "abcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
			return wrong(f.name, "must have letters, digits and _ . - only")
		}
	}
	for _, l := range []struct {
		name  string
		list  []string
		check func(string) error
	}{{"required_extensions", d.RequiredExtensions, CheckExtension}, {"required_permissions", d.RequiredPermissions, CheckPermission}} {
		if len(l.list) > MaxPermissions {
			return wrong(l.name, "has %d elements; the maximum is %d", len(l.list), MaxPermissions)
		}
		for _, item := range l.list {
			if err := l.check(item); err != nil {
				return &FieldError{l.name, fmt.Sprintf("%s: %v", l.name, err)}
			}
		}
	}
	return nil
}
