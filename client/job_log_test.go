package client_test

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// TestJobLog: a reader follows the output of a run to the end of the job, and then reads the blob.
func TestJobLog(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx := t.Context()
	j := testkit.Must(c.Create(ctx, client.NewJob{Type: "x"}))(t)
	if _, err := c.JobLog(ctx, j.ID, false); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("a job that has printed nothing: %v", err)
	}
	following := testkit.Must(c.JobLog(ctx, j.ID, true))(t)
	defer following.Close()
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 1}))(t)
	if err := c.AppendLog(ctx, j.ID, j.ID, 0, []byte("x")); !errors.Is(err, problem.ErrClaimLost) {
		t.Errorf("another claim: %v", err)
	}
	if err := c.AppendLog(ctx, j.ID, "x", 0, []byte("x")); !errors.Is(err, problem.ErrBadRequest) {
		t.Errorf("no claim: %v", err)
	}
	testkit.NoError(t, errors.Join(c.AppendLog(ctx, j.ID, claim.ID, 0, []byte("one\n")), c.AppendLog(ctx, j.ID, claim.ID, 0, []byte("one\ntwo\n"))))
	lines := bufio.NewReader(following)
	for _, want := range []string{"one\n", "two\n"} {
		if got, err := lines.ReadString('\n'); got != want || err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
	b := testkit.Must(c.Blobs(j.Client).Put(ctx, strings.NewReader("the whole")))(t)
	ended, err := c.Complete(ctx, j.ID, claim.ID, client.Outcome{LogAddr: b.Address})
	if err != nil || ended.LogAddr != b.Address {
		t.Errorf("%q: %v", ended.LogAddr, err)
	}
	if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
		t.Errorf("%q: %v", rest, err)
	}
	stored := testkit.Must(c.JobLog(ctx, j.ID, true))(t)
	defer stored.Close()
	if text, err := io.ReadAll(stored); string(text) != "the whole" || err != nil {
		t.Errorf("%q: %v", text, err)
	}
	if err := c.AppendLog(ctx, j.ID, claim.ID, 8, []byte("x")); !errors.Is(err, problem.ErrNotActive) {
		t.Errorf("an ended job: %v", err)
	}
	if _, err := c.JobLog(ctx, claim.ID, false); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("no job: %v", err)
	}
}
