package handler

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
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
		testkit.Equal(t, Permits(c.list, c.needed), c.want, c.list, "permits", c.needed)
	}
}

func TestCheckPermission(t *testing.T) {
	for _, good := range []string{"proc:read:*", "http:*", "http:example.com", "http:localhost:8080", "http:[::1]:80", "extension:*", "extension:as-fib_1.2"} {
		testkit.NoError(t, CheckPermission(good), good)
	}
	for _, bad := range []string{"", "*", "proc:read:/proc/1", "http", "http:", "http:a/b", "http:a b", "extension:", "extension:a/b", "http:" + strings.Repeat("a", MaxPermissionBytes), "extension:" + strings.Repeat("a", MaxExtensionBytes+1)} {
		testkit.Holds(t, CheckPermission(bad) != nil, bad, "is accepted")
	}
}
