package ingest

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/job"
)

// TestLevel: a new log begins with the newest level. A start with an older level keeps it and logs a hint, until somebody
// raises it. A second raise is harmless.
func TestLevel(t *testing.T) {
	fresh, _ := start(t, t.TempDir())
	if level, newest := fresh.Level(); level != job.Level || newest != job.Level {
		t.Errorf("a new log has level %d of %d", level, newest)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		l.other(lines(1)) // of a program that knew no level
		var log bytes.Buffer
		e, err := Open(Options{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)), openLog: l.open})
		if err != nil {
			t.Fatal(err)
		}
		end := serve(t, e)
		l.lead(1)
		time.Sleep(time.Minute)
		if level, newest := e.Level(); level != 0 || newest != job.Level {
			t.Errorf("after a start: level %d of %d", level, newest)
		}
		for range 2 {
			if level, _, err := e.RaiseLevel(t.Context()); level != job.Level || err != nil {
				t.Errorf("raised to %d, %v", level, err)
			}
			if level, _ := e.Level(); level != job.Level {
				t.Errorf("raised: level %d", level)
			}
		}
		end()
		if !strings.Contains(log.String(), "daybook level raise") {
			t.Errorf("no hint in the log:\n%s", &log)
		}
	})
}
