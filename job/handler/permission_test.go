package handler

import (
	"strings"
	"testing"
)

func TestPermits(t *testing.T) {
	for _, c := range []struct {
		list   []string
		needed string
		want   bool
	}{
		{[]string{"http:example.com"}, "http:example.com", true},
		{[]string{"http:example.com"}, "http:EXAMPLE.com", true},
		{[]string{"http:*"}, "http:example.com", true},
		{[]string{"http:example.com"}, "http:*", false},
		{[]string{"http:example.com"}, "http:www.example.com", false},
		{[]string{"extension:*"}, "http:example.com", false},
		{[]string{"extension:*"}, "extension:fib", true},
		{[]string{"proc:read:*"}, "proc:read:*", true},
		{[]string{"proc:*"}, "proc:read:*", false},
		{nil, "proc:read:*", false},
	} {
		if got := Permits(c.list, c.needed); got != c.want {
			t.Errorf("%q permits %q: %v", c.list, c.needed, got)
		}
	}
}

func TestCheckPermission(t *testing.T) {
	for _, good := range []string{"proc:read:*", "http:*", "http:example.com", "http:localhost:8080", "http:[::1]:80", "extension:*", "extension:as-fib_1.2"} {
		if err := CheckPermission(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "*", "proc:read:/proc/1", "http", "http:", "http:a/b", "http:a b", "extension:", "extension:a/b", "http:" + strings.Repeat("a", MaxPermissionBytes), "extension:" + strings.Repeat("a", MaxExtensionBytes+1)} {
		if CheckPermission(bad) == nil {
			t.Errorf("%.50q is accepted", bad)
		}
	}
}
