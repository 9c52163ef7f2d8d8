package hostile

import (
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/report"
)

// streamBounds: all attacks at once fill the budgets of creates, other bodies and claims, and part of the budgets of
// answers, requests and subscriptions. Together these are 288 MiB. Uncollected garbage takes the same amount again, and
// on a busy machine a late collection lets a little more pass. A stream has a goroutine, 16 subscriptions, and a few
// concurrent requests.
var streamBounds = bounds{(2*288 + 64) << 20, 40}

// TestHostileStreams: hostile clients in streams, with -full each attack alone, otherwise all at once. Memory, goroutines
// and descriptors stay bounded, and honest clients can work.
func TestHostileStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("short: ten seconds of attacks are left out")
	}
	b := begin(t, 0)
	a := attack{name: "streams", run: inStream}
	n, d := 120, 2*time.Second
	if *full {
		n, d = connections, 4*time.Second
	}
	var table strings.Builder
	table.WriteString(rowHead)
	check := func(what string, requests []*request) {
		t.Helper()
		n := n
		if what == "messages of 8 MiB" { // each connection sends megabytes a second
			n = 60
		}
		t.Run(what, func(t *testing.T) {
			o := b.under(t, n, a, requests, 1, d)
			o.check(t, what, n, streamBounds)
			testkit.Holds(t, len(o.busy.claims) != 0 &&
				o.busy.posts != 0, "honest clients made", o.busy.posts, "posts and", len(o.busy.claims), "claims")
			table.WriteString(o.row("streams: "+what, n))
		})
	}
	if *full {
		for _, r := range streamAttacks {
			check(r.what, []*request{r})
		}
	}
	check("all of these", streamAttacks)
	if *full {
		report.Write(t, "hostile-streams", table.String())
	}
}

// TestFewDescriptorsForStreams: with 336 descriptors and a thousand streams the honest clients lose no request.
func TestFewDescriptorsForStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("short: five seconds of attacks are left out")
	}
	b := begin(t, 336)
	o := b.under(t, 1000, attack{name: "streams", run: inStream}, streamAttacks, 1, 2*time.Second)
	t.Log(o.row("streams", 1000))
	testkit.Holds(t, o.busy.posts != 0 && len(o.busy.claims) != 0, o.busy.posts, "posts", len(o.busy.claims), "claims")
}
