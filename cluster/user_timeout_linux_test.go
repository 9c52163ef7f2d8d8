package cluster

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestSilence: the connection for messages of Raft has a limit of silence. The one for groups has none, because a leader that
// takes no groups does not read it.
func TestSilence(t *testing.T) {
	members := newMembers(t, 2)
	to := members[0].state.Members[1]
	for kind, want := range map[string]int{raftKind: int(silence.Milliseconds()), groupKind: 0} {
		conn := testkit.Must(members[0].log.dial(t.Context(), to, kind))(t)
		raw := testkit.Must(conn.(syscall.Conn).SyscallConn())(t)
		testkit.NoError(t, raw.Control(func(fd uintptr) {
			testkit.Equal(t, testkit.Must(unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT))(t), want, kind)
		}))
		testkit.NoError(t, conn.Close())
	}
}
