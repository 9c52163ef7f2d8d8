package api

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestBudgets: each lane has the bytes that the pages promise, and a budget has no lane that is not listed here.
func TestBudgets(t *testing.T) {
	page := string(testkit.Must(os.ReadFile("../docs/reference/api.md"))(t)) + string(testkit.Must(os.ReadFile("../docs/reference/stream.md"))(t))
	l := newLimits()
	const mib = 1 << 20
	bytes := map[*web.Lane]string{ // the row of the table, with the bytes of the lane in place of %d; "": no promise
		l.bulk:      "| bytes of all arriving creates | %d MiB, half of it for one remote address",
		l.control:   "| bytes of all other bodies | %d MiB, half of it for one remote address",
		l.streamed:  "| blobs and archives that are being stored, or being read | %d each, of any length, with 1 MiB of memory for each",
		l.manifests: "| bytes of manifests of filesets | %d MiB, half of it for one remote address",

		l.documents:   "| bytes of answers that are being sent | %d MiB for GETs,",
		l.handouts:    " MiB for GETs, %d MiB for claims,",
		l.changes:     " MiB for claims, %d MiB for changes to one job",
		l.downloads:   "| blobs and archives that are being stored, or being read | %d each, of any length, with 1 MiB of memory for each",
		l.scrapes:     "| bytes of pages of `/metrics` that are being sent | %d MiB, half of it for one remote address",
		l.compressors: "",

		l.parked:         "",
		l.streamRequests: "all streams together may take %d MiB for requests",
		l.streamJobs:     "MiB for requests and %d MiB for subscriptions and jobs",
	}
	lanes := 0
	for name, b := range map[string]*web.Budget{"arriving": &l.arriving, "answered": &l.answered, "kept": &l.kept} {
		for _, lane := range b.Lanes() {
			lanes++
			row, listed := bytes[lane]
			if row != "" {
				row = fmt.Sprintf(row, lane.Total()/mib)
			}
			if !listed || !strings.Contains(page, row) {
				t.Errorf("lane %s of %s: the pages do not have %q", lane.Name(), name, row)
			}
		}
	}
	testkit.Equal(t, lanes, len(bytes), "lanes are listed")
}
