package client

import (
	"errors"
	"os"
	"testing"

	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job/runs"
)

func goldenRuns(t testing.TB, name string) []byte {
	t.Helper()
	return testkit.Must(os.ReadFile("../testdata/runs/" + name + ".runs"))(t)
}

// TestClaimInRuns: an answer in runs is read whole or not at all.
func TestClaimInRuns(t *testing.T) {
	text := goldenRuns(t, "claim")
	claim := testkit.Must(decodeClaim(transport.Answer{MediaType: runs.MediaType, Body: text}))(t)
	testkit.MustHold(t, len(claim.Jobs) == 107 && claim.LeaseMs == 30_000, claim)
	if j := claim.Jobs[2]; string(j.Payload) != "third" || j.Kind != Text || j.ID == claim.Jobs[0].ID || j.ClaimID != claim.ID || j.RunnerID != "runner 1" {
		t.Errorf("%+v", j)
	}
	if j := claim.Jobs[3]; j.Kind != JSON || *j.Progress != 0 || j.Meta["colour"] != "deep red" || j.Attempts[0].Error != "it\nbroke" || j.UniqueKey != "order 7, %" {
		t.Errorf("%+v", j)
	}
	j := claim.Jobs[106]
	testkit.Holds(t, j.BatchID == "" && string(j.Payload) == "z", j)
	claim.Jobs[0].Payload = append(claim.Jobs[0].Payload, "more"...)
	testkit.Equal(t, string(claim.Jobs[2].Payload), "third", "a payload that grows changes another one")
	for n := range text {
		if _, err := decodeClaim(transport.Answer{MediaType: runs.MediaType, Body: text[:n]}); !errors.Is(err, problem.ErrUnexpectedAnswer) {
			t.Fatalf("%d of %d bytes: %v", n, len(text), err)
		}
	}
}

func FuzzClaimInRuns(f *testing.F) {
	f.Add(goldenRuns(f, "claim"))
	f.Add(goldenRuns(f, "refused"))
	f.Fuzz(func(t *testing.T, text []byte) {
		claim, err := decodeClaim(transport.Answer{MediaType: runs.MediaType, Body: text})
		if err != nil {
			return
		}
		for _, j := range claim.Jobs {
			testkit.Holds(t, len(j.ID) == idBytes && j.ClaimID == claim.ID && j.Status == "active", j)
		}
	})
}
