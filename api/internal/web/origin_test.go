package web

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func TestConfiguredHosts(t *testing.T) {
	for _, name := range []string{"", "a:1", "http://a", "a/b", "a b", "a:", "*.", "**", "*a", "a.*", "*.*"} {
		_, err := configuredHosts([]string{name})
		testkit.Holds(t, err != nil, name, "is taken")
	}
	for name, hosts := range map[string]map[string]bool{
		"daybook":   {"daybook": true, "DAYBOOK:1717": true, "daybook.evil.example": false, "other": false},
		"*.cluster": {"daybook.cluster": true, "a.b.Cluster:80": true, "cluster": false, ".cluster": false, "evilcluster": false},
		"*":         {"anything.example": true, "": true},
	} {
		h := testkit.Must(configuredHosts([]string{name}))(t)
		for host, allowed := range hosts {
			if h.allow(host) != allowed {
				t.Errorf("--allow-host %s: %q is allowed: %t, want %t", name, host, !allowed, allowed)
			}
		}
	}
}
