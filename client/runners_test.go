package client_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// TestRunners registers runners with a real server, takes one over, and reads them.
func TestRunners(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx := t.Context()
	testkit.Fails(c.Runner(ctx, "r-1"))(t, problem.ErrNotFound)
	info := client.RunnerInfo{
		ID: "r-1", Instance: "first", Name: "lathe", Addresses: []string{"10.0.0.7"}, Kinds: []string{"exec"}, Types: []string{"resize"},
		Clients: []string{"acme"}, Slots: 8, Labels: map[string]string{"zone": "b"}, Version: "1.0", Stats: client.RunnerStats{CPU: 0.25, Memory: 1 << 30, Running: 3},
	}
	testkit.MustEqual(t, testkit.Must(c.Heartbeat(ctx, info))(t), 15*time.Second, "heartbeat")
	got, err := c.Runner(ctx, info.ID)
	testkit.Holds(t, err == nil && reflect.DeepEqual(got.RunnerInfo, info) && got.State == client.RunnerAlive && got.Since != 0 &&
		got.HeartbeatAt >= got.Since && got.LastSeenAt == got.HeartbeatAt && got.End == "", "runner", got, err)
	second := info
	second.Instance = "second"
	testkit.Fails(c.Heartbeat(ctx, second))(t, problem.ErrRunnerTaken)
	second.Takeover = true
	testkit.Must(c.Heartbeat(ctx, second))(t)
	info.Takeover = true // the instance that was replaced cannot take over in its turn
	testkit.Fails(c.Heartbeat(ctx, info))(t, problem.ErrRunnerReplaced)
	testkit.Failed(t, c.Goodbye(ctx, info.ID, "first"), problem.ErrRunnerReplaced)
	for range 2 {
		testkit.Check(t, c.Goodbye(ctx, info.ID, "second"), "goodbye")
	}
	testkit.Fails(c.Heartbeat(ctx, second))(t, problem.ErrRunnerLost)
	testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "any text"}))(t)
	testkit.Must(c.AddLines(ctx, []byte("one\n"), client.AddOptions{}))(t)
	testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "any text"}))(t)
	var list []client.Runner
	for r, err := range c.Runners(ctx) {
		testkit.NoError(t, err)
		list = append(list, r)
	}
	testkit.Holds(t, len(list) == 2 && list[0].ID == info.ID && list[0].State == client.RunnerDead &&
		list[0].End == client.RunnerLeft && list[1].ID == "any text" && list[1].State == "" && list[1].Held == 1, "runners", list)
	var refused *problem.Error
	_, err = c.Heartbeat(ctx, client.RunnerInfo{ID: "r", Instance: "i", Kinds: []string{"no kind"}})
	testkit.Holds(t, errors.As(err, &refused) && refused.Field == "kinds", "a heartbeat with a wrong kind", err)
	testkit.Fails(c.Heartbeat(ctx, client.RunnerInfo{ID: "r"}))(t, problem.ErrBadRequest)
}
