package top

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
)

// serving returns the URL of a server.
func serving(t *testing.T) string {
	t.Helper()
	engine := testkit.Must(ingest.Open(ingest.Options{Dir: t.TempDir()}))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	server := testkit.Must(api.New(api.Options{Engine: engine, Log: zerolog.Nop()}))(t)
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { stop(); testkit.Check(t, <-ended) })
	listening, quit := context.WithCancel(ctx)
	closed := make(chan error, 1)
	go func() { closed <- server.Run(listening, l, time.Minute) }()
	t.Cleanup(func() { // before the engine
		quit()
		testkit.Check(t, <-closed)
	})
	return "http://" + l.Addr().String()
}

// TestNewestFailed: if there are more failed jobs than are read, the newest are shown.
func TestNewestFailed(t *testing.T) {
	c := client.New(serving(t), client.Options{})
	fail := func(n int) {
		t.Helper()
		jobs := make([]client.NewJob, n)
		for i := range jobs {
			jobs[i] = client.NewJob{Attributes: client.Attributes{MaxAttempts: 1}}
		}
		testkit.Must(c.CreateBatch(t.Context(), client.NewBatch{Type: "t"}, jobs))(t)
		for left := n; left > 0; {
			claim := testkit.Must(c.Claim(t.Context(), client.ClaimRequest{RunnerID: "r", Types: []string{"t"}, Max: 1000}))(t)
			testkit.MustHold(t, claim != nil, claim)
			testkit.Must2(c.CompleteClaim(t.Context(), claim.ID, client.Outcome{Code: "error", Error: "e"}))(t)
			left -= len(claim.Jobs)
		}
	}
	source := &server{t.Context(), c}
	q := config.QueueName{Client: "default", Type: "t"}
	testkit.MustEqual(t, len(testkit.Must(source.failed(q))(t)), 0)
	fail(3)
	list, err := source.failed(q)
	testkit.MustHold(t, err == nil && len(list) == 3 && list[0].ID >= list[2].ID, len(list), err)
	fail(maxFailedRead + 500)
	fail(shownFailed + 20)
	newest := ""
	for j, err := range c.Jobs(t.Context(), client.JobsQuery{Type: "t", Fields: []string{"status"}, PageSize: 1000}) {
		testkit.NoError(t, err)
		newest = j.ID
	}
	list = testkit.Must(source.failed(q))(t)
	testkit.Holds(t, len(list) == shownFailed && list[0].ID == newest, len(list), "jobs, or the first is not the newest")
}
