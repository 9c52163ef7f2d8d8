package sandbox

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestNetworkAccess: each way to reach a network is refused by default, and allowed by the setting.
func TestNetworkAccess(t *testing.T) {
	if !canFilter() {
		t.Skip("this machine has no seccomp filters")
	}
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	path := filepath.Join(t.TempDir(), "socket")
	u := testkit.Must(net.Listen("unix", path))(t)
	defer u.Close()
	eachKind(t, func(t *testing.T, s *Sandbox) {
		for _, role := range []string{"pair", "interfaces"} {
			r := run(t, s, inRole(t, role))
			testkit.Holds(t, r.OK(), role, r)
		}
		for _, role := range []string{"connect", "mptcp", "listen", "udp", "ring", "unix"} {
			for _, allowed := range []bool{false, true} {
				c := inRole(t, role, l.Addr().String())
				if role == "unix" {
					c = inRole(t, role, path)
				}
				c.Access.Network = allowed
				r := run(t, s, c)
				if allowed && !r.OK() && (strings.Contains(r.out, "not supported") || strings.Contains(r.out, "not implemented") || strings.Contains(r.out, "not permitted")) {
					t.Logf("this machine cannot do %s at all: %s", role, r)
				} else if r.OK() != allowed || !allowed && !strings.Contains(r.out, "permission denied") && !strings.Contains(r.out, "not implemented") {
					t.Errorf("%s, allowed %t: %s", role, allowed, r)
				}
			}
		}
	})
}
