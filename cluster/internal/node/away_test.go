package node

import (
	"testing"
	"testing/cryptotest"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestAway: the leader, and no other node, takes a member for away after 30 seconds without a message of it, until it hears
// of it again. A new leader begins to count when it begins to lead.
func TestAway(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	w, _ := newWorld(1, none)
	defer w.end()
	w.work(100)
	byRole := func() (leader, follower *machine) {
		for _, m := range w.machines {
			if _, leads := m.node.Leads(); leads {
				leader = m
			} else if !m.deaf {
				follower = m
			}
		}
		testkit.MustHold(t, leader != nil && follower != nil, "no node leads")
		return leader, follower
	}
	away := func(m *machine) int { return len(m.node.Away()) }

	leader, gone := byRole()
	gone.mute, gone.deaf = true, true
	w.work(awayTicks - 1)
	testkit.Equal(t, away(leader), 0, "a tick too early")
	w.work(3 * electionTicks) // Raft notices an absence after one or two elections' time
	testkit.MustEqual(t, away(leader), 1)
	testkit.Holds(t, leader.node.Away()[gone.id], leader.node.Away(), "the member that is cut off has id", gone.id)

	_, other := byRole()
	testkit.Equal(t, away(other), 0, "at a node that does not lead")
	leader.node.Transfer(other.id)
	w.work(20)
	_, leads := other.node.Leads()
	testkit.MustHold(t, leads, "the other node does not lead")
	testkit.Equal(t, away(leader), 0, "at the last leader")
	testkit.Equal(t, away(other), 0, "at the new leader")
	w.work(awayTicks + 3*electionTicks)
	testkit.Equal(t, away(other), 1, "at the new leader after 30 seconds")

	gone.mute, gone.deaf = false, false
	w.work(2 * electionTicks)
	testkit.Equal(t, away(other), 0, "after its return")
}
