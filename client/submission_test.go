package client_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

// TestSubmitLargeJobs: payloads that a create of one job accepts can be submitted, also if they are much longer in a
// request than in memory.
func TestSubmitLargeJobs(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bytesOf := func(n int) client.NewJob {
		return client.NewJob{Payload: bytes.Repeat([]byte{0xff}, n), Kind: client.Bytes}
	}
	control := client.NewJob{Payload: bytes.Repeat([]byte{1}, 4<<10), Kind: client.Text} // each byte is escaped as six
	for name, jobs := range map[string][]client.NewJob{
		"one after another": {bytesOf(2<<20 - 1), bytesOf(4 << 20), bytesOf(1)},
		"escaped":           slices.Repeat([]client.NewJob{control}, 600),
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s, err := c.Submit(ctx, client.NewBatch{Paused: true}, slices.Values(jobs))
			if err != nil || s.Count != int64(len(jobs)) {
				t.Fatalf("%+v, %v", s, err)
			}
			if b, err := c.Batch(ctx, s.ID); err != nil || b.Open || b.Count != int64(len(jobs)) {
				t.Errorf("%+v, %v", b, err)
			}
		})
	}
}
