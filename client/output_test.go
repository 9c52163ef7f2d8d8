package client_test

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// TestOutput: the output of a job, in every kind, and the wait for its end.
func TestOutput(t *testing.T) {
	s := daybooktest.Start(t)
	c, ctx := s.Client, t.Context()
	for _, want := range []client.Output{
		{Status: "completed", Code: "ok", Kind: client.Text, Bytes: []byte("a")},
		{Status: "failed", Code: "failed", Kind: client.JSON, Bytes: []byte(`{"a":1}`)},
		{Status: "completed", Code: "ok", Kind: client.Bytes, Bytes: []byte{0, 0xff}},
		{Status: "completed", Code: "ok"},
	} {
		j := testkit.Must(c.Create(ctx, client.TextJob("x", "1")))(t)
		testkit.Fails(c.Output(ctx, j.ID, time.Millisecond))(t, problem.ErrConflict)
		claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r"}))(t)
		testkit.MustEqual(t, len(claim.Jobs), 1, claim)
		completed := make(chan error)
		go func() {
			_, err := c.Complete(ctx, j.ID, claim.ID, client.Outcome{Code: want.Code, Output: want.Bytes, OutputKind: want.Kind})
			completed <- err
		}()
		got, err := c.Output(ctx, j.ID, time.Hour)
		testkit.Holds(t, err == nil && got.Status == want.Status && got.Code == want.Code && got.Kind == want.Kind &&
			string(got.Bytes) == string(want.Bytes), got, err, "want", want)
		testkit.Check(t, <-completed) // its answer may arrive after the output
	}
	testkit.Fails(c.Output(ctx, "018bcfe5-6800-7000-8000-000004000000", 0))(t, problem.ErrNotFound)
}

// TestJobLog: a reader follows the output of a run to the end of the job, and then reads the blob.
func TestJobLog(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx := t.Context()
	j := testkit.Must(c.Create(ctx, client.NewJob{Type: "x"}))(t)
	testkit.Fails(c.JobLog(ctx, j.ID, false))(t, problem.ErrNotFound)
	following := testkit.Must(c.JobLog(ctx, j.ID, true))(t)
	defer following.Close()
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 1}))(t)
	testkit.Failed(t, c.AppendLog(ctx, j.ID, j.ID, 0, []byte("x")), problem.ErrClaimLost)
	testkit.Failed(t, c.AppendLog(ctx, j.ID, "x", 0, []byte("x")), problem.ErrBadRequest)
	testkit.NoError(t, errors.Join(c.AppendLog(ctx, j.ID, claim.ID, 0, []byte("one\n")), c.AppendLog(ctx, j.ID, claim.ID, 0, []byte("one\ntwo\n"))))
	lines := bufio.NewReader(following)
	for _, want := range []string{"one\n", "two\n"} {
		got, err := lines.ReadString('\n')
		testkit.Holds(t, got == want && err == nil, got, err)
	}
	b := testkit.Must(c.Blobs(j.Client).Put(ctx, strings.NewReader("the whole")))(t)
	testkit.Equal(t, testkit.Must(c.Complete(ctx, j.ID, claim.ID, client.Outcome{LogAddr: b.Address}))(t).LogAddr, b.Address)
	rest, err := io.ReadAll(lines)
	testkit.Holds(t, len(rest) == 0 && err == nil, rest, err)
	stored := testkit.Must(c.JobLog(ctx, j.ID, true))(t)
	defer stored.Close()
	text, err := io.ReadAll(stored)
	testkit.Holds(t, string(text) == "the whole" && err == nil, text, err)
	testkit.Failed(t, c.AppendLog(ctx, j.ID, claim.ID, 8, []byte("x")), problem.ErrNotActive)
	testkit.Fails(c.JobLog(ctx, claim.ID, false))(t, problem.ErrNotFound)
}
