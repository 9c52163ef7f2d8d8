package client_test

import (
	"errors"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// TestStreamEnds: a request whose stream ends returns ErrUnknown, and later requests are sent over HTTP.
func TestStreamEnds(t *testing.T) {
	s := daybooktest.Start(t)
	c := clienttest.NewCutter(t, s.URL)
	stream := testkit.Must(client.New(c.Url, client.Options{}).OpenStream(t.Context(), client.StreamOptions{RunnerID: "r"}))(t)
	testkit.Must(s.Client.AddLines(t.Context(), []byte("a\nb\n"), client.AddOptions{}))(t)
	got := make(chan *client.Claim, 2)
	testkit.Must(stream.Subscribe(t.Context(), client.SubscribeOptions{Credit: 2, Take: func(c *client.Claim) { got <- c }}))(t)
	claim := <-got
	testkit.MustHold(t, len(claim.Jobs) == 2 && string(claim.Jobs[0].Payload) == "a" && claim.Jobs[1].ClaimID == claim.ID, claim)
	over := stream.Client()
	held := testkit.Must(over.TickleClaim(t.Context(), claim.ID, client.TickleOptions{}))(t)
	testkit.Equal(t, held.Held, 2, held)
	results, err := over.CompleteMany(t.Context(), claim.ID, []client.JobOutcome{{JobID: claim.Jobs[0].ID, Outcome: client.TextOutput("x")}})
	testkit.NoError(t, err)
	testkit.Holds(t, len(results) == 1 && results[0].Status == "completed", results)
	c.Cut()
	<-stream.Done()
	testkit.Holds(t, stream.Err() != nil, "a stream that has ended has no error")
	testkit.Fails(stream.Subscribe(t.Context(), client.SubscribeOptions{Credit: 1, Take: func(*client.Claim) {}}))(t, problem.ErrUnavailable)
	// The other job has returned to its queue, so the claim holds no job.
	for {
		_, err := over.TickleClaim(t.Context(), claim.ID, client.TickleOptions{})
		if errors.Is(err, problem.ErrClaimLost) {
			break
		}
		testkit.NoError(t, err)
	}
	stream.Close() // again
}

// TestSubscribeRequires: a subscription without its required fields is refused before it is sent.
func TestSubscribeRequires(t *testing.T) {
	s := daybooktest.Start(t)
	stream := testkit.Must(s.Client.OpenStream(t.Context(), client.StreamOptions{RunnerID: "r"}))(t)
	defer stream.Close()
	for _, o := range []client.SubscribeOptions{{Credit: 1}, {Take: func(*client.Claim) {}}} {
		_, err := stream.Subscribe(t.Context(), o)
		testkit.Holds(t, errors.Is(err, problem.ErrBadRequest), o, err)
	}
}
