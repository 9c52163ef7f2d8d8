package work

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/runner"
)

// Bounds for the log of a runner that has ended with --until-idle: how many queues it names, and how many it reads to
// find them.
const (
	waitingNamed = 5
	waitingRead  = 10000
)

// LogWaiting logs the queues whose jobs have been pending for as long as the runner was idle. Without it, a runner
// without a handler for them would look as if it had done everything. A server that does not answer is no error.
func LogWaiting(ctx context.Context, s *runner.Settings) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var names []string
	read, more := 0, 0
	for q, err := range s.Client.Queues(ctx, "") {
		if read++; err != nil || read > waitingRead {
			break
		}
		if q.Paused || q.OldestPendingAgeMs == nil || *q.OldestPendingAgeMs < s.UntilIdle.Milliseconds() ||
			len(s.Types) > 0 && !slices.Contains(s.Types, q.Type) || len(s.Clients) > 0 && !slices.Contains(s.Clients, q.Client) {
			continue
		}
		if len(names) == waitingNamed {
			more++
			continue
		}
		names = append(names, fmt.Sprintf("%s/%s (%s)", q.Client, q.Type, terminal.JobsText(q.Counts["pending"])))
	}
	if len(names) == 0 {
		return
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %s", terminal.NumberText(more, "other", "others"))
	}
	s.Log.Warn("jobs wait that this runner was not given: it has no handler for their type (--config), does not accept its kind (--accept), or could not load it", "queues", text)
}
