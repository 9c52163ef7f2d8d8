package ingest

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestLevel: a new log begins with the newest level. A start with an older level keeps it and logs a hint, until somebody
// raises it. A second raise is harmless.
func TestLevel(t *testing.T) {
	fresh, _ := start(t, t.TempDir())
	level, newest := fresh.Level()
	testkit.Holds(t, level == job.Level && newest == job.Level, "a new log has level", level, "of", newest)
	synctest.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		l.other(lines(1)) // of a program that knew no level
		var log bytes.Buffer
		e := testkit.Must(Open(Options{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)), openLog: l.open}))(t)
		end := serve(t, e)
		l.lead(1)
		time.Sleep(time.Minute)
		level, newest := e.Level()
		testkit.Holds(t, level == 0 && newest == job.Level, "after a start: level", level, "of", newest)
		for range 2 {
			if level, _, err := e.RaiseLevel(t.Context()); level != job.Level || err != nil {
				t.Errorf("raised to %d, %v", level, err)
			}
			level, _ := e.Level()
			testkit.Equal(t, level, job.Level, "raised: level")
		}
		end()
		if !strings.Contains(log.String(), "daybook level raise") {
			t.Errorf("no hint in the log:\n%s", &log)
		}
	})
}
