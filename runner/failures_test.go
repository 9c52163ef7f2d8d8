package runner

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestFailuresInTheLog: if runs of a type end badly, the runner logs one a second, with the number of runs that it left
// out.
func TestFailuresInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		var f failures
		fail := func(typ, id, reason string) {
			f.log(log, &client.Job{Type: typ, Client: "c", ID: id}, &client.Outcome{Code: "error", Error: reason})
		}
		for i := range 5 {
			fail("a", fmt.Sprint(i), "broken\n")
			fail("b", fmt.Sprint(i), strings.Repeat("x", 2*maxLogged))
		}
		time.Sleep(logEvery)
		fail("a", "5", "again")
		want := `level=WARN msg="a run ended badly" type=a client=c job_id=0 code=error error=broken not_logged=0
level=WARN msg="a run ended badly" type=b client=c job_id=0 code=error error=` + strings.Repeat("x", maxLogged) + `… not_logged=0
level=WARN msg="a run ended badly" type=a client=c job_id=5 code=error error=again not_logged=4
`
		testkit.Equal(t, text.String(), want)
		for i := range 3 * maxTypes {
			fail(fmt.Sprint("type ", i), "0", "x")
		}
		n := len(f.types)
		testkit.Holds(t, n <= maxTypes, n, "types are remembered")
	})
}
