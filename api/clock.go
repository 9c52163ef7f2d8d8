package api

import (
	"context"
	"net/http"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/operation"
)

// journalTime is the journal's time as a resource. All times of jobs are in it.
type journalTime struct{ engine backend.Engine }

func (t journalTime) routes(r operation.Rules) []route {
	return []route{
		cold(r, http.MethodPost, "/clock/accept", operation.About{
			ID: "acceptTime", Tag: "Switches", Summary: "Set the server's time to its wall clock",
			Text: "The server uses a time of its own for leases and `run_at`, which never jumps. If the wall clock was set forward,\n" +
				"the server's time runs at double speed until the two are equal. This operation sets it to the wall clock at\n" +
				"once, if it is earlier. All leases get their full length again.\n",
			Answers:  answers{200: "The server's time is not earlier than its wall clock."},
			Refusals: []int{503, 507},
		}, t.accept),
	}
}

type clockOffset struct {
	Body struct {
		ClockOffsetMs int64 `json:"clock_offset_ms" doc:"how far the server's time is ahead of its wall clock"`
	}
}

// accept sets the journal's time to a wall clock that was set forward.
func (t journalTime) accept(ctx context.Context, _ *nothing) (out clockOffset, err error) {
	out.Body.ClockOffsetMs, err = t.engine.AcceptTime(ctx)
	return out, err
}

// levels is the level of the rules by which the journal is applied.
type levels struct{ engine backend.Engine }

func (l levels) routes(r operation.Rules) []route {
	return []route{
		cold(r, http.MethodGet, "/level", operation.About{
			ID: "level", Tag: "Watching", Summary: "The level of the rules by which the journal is applied",
			Text: "A new version of the program may apply commands by other rules, which have a higher level. It follows them only\n" +
				"after the level was raised. Until then an older version can still be started with the same data.\n",
			Answers: answers{200: "The level, and the newest one that this program knows."},
		}, l.read),
		cold(r, http.MethodPost, "/level/raise", operation.About{
			ID: "raiseLevel", Tag: "Switches", Summary: "Raise the level to the newest one that this program knows",
			Text: "Older versions of the program, which do not know this level, can then no longer be started with the data. A\n" +
				"repeat has no effect.\n",
			Answers:  answers{200: "The level is the newest one that this program knows."},
			Refusals: []int{503, 507},
		}, l.raise),
	}
}

type levelDocument struct {
	Level  int `json:"level" minimum:"0" doc:"the level of the rules by which the journal is applied"`
	Newest int `json:"newest" minimum:"1" doc:"the newest level that this program knows"`
}

func (l levels) read(context.Context, *nothing) (found[levelDocument], error) {
	level, newest := l.engine.Level()
	return found[levelDocument]{levelDocument{level, newest}}, nil
}

// raise raises the level. An operator calls it when no older version of the program will be started again.
func (l levels) raise(ctx context.Context, _ *nothing) (changed[levelDocument], error) {
	level, receipt, err := l.engine.RaiseLevel(ctx)
	return changedBy(receipt, levelDocument{level, level}), err
}
