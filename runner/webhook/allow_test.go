package webhook

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func TestAllow(t *testing.T) {
	a, err := ParseAllow([]string{"10.1.0.0/16", "127.0.0.1:8080", "[::1]:80", "192.168.1.2", "fd00::/8", "[fd11::1]", "::ffff:10.9.9.9", "Hooks.Internal.", "localhost:9000", "my_host", "64:ff9b::/96"})
	testkit.NoError(t, err)
	for text, want := range map[string]bool{
		"10.1.2.3:1": true, "10.2.0.0:1": false, "[::ffff:10.1.2.3]:1": true, "127.0.0.1:8080": true, "[::ffff:127.0.0.1]:8080": true, "127.0.0.1:8081": false,
		"127.0.0.2:8080": false, "[::1]:80": true, "[::1]:81": false, "192.168.1.2:5": true, "192.168.1.3:5": false, "[fd12::1]:5": true, "10.9.9.9:80": true,
		"[64:ff9b::7f00:1]:80": true, "[fe80::1%eth0]:80": false,
	} {
		testkit.Equal(t, a.address(netip.MustParseAddrPort(text)), want, text, "is allowed")
	}
	for text, want := range map[string]bool{
		"hooks.internal 80": true, "HOOKS.internal. 443": true, "a.hooks.internal 80": false, "localhost 9000": true, "localhost 9001": false, "my_host 1": true, "127.0.0.1 8080": false,
	} {
		host, port, _ := strings.Cut(text, " ")
		testkit.Equal(t, a.name(host, port), want, text, "is allowed")
	}
	var none *Allow
	testkit.Holds(t, !none.name("a", "80") && !none.address(netip.MustParseAddrPort("127.0.0.1:80")), "an empty list allows something")
	for _, bad := range []string{"", ".", "10.0.0.1/8", "10.0.0.0/33", "::ffff:10.0.0.0/104", "http://a", "a:b", "a:0", "a:65536", "a:-1", "a:+1", "*", "*.example.com", "a b", "ä.example", "127.1", "0x7f.1", "127.0.0.0x1", "a..b", ":80", "10.0.0.256", strings.Repeat("a", 254)} {
		if _, err := ParseAllow([]string{"localhost", bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		} else if bad != "" && !strings.Contains(err.Error(), bad[:1]) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
