package client

import (
	"bytes"
	"testing"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// BenchmarkDecodeClaim reads the answer to a claim of 100 jobs of 100 bytes, in runs and in NDJSON as the server writes
// them.
func BenchmarkDecodeClaim(b *testing.B) {
	id := job.NewID(1_790_000_000_000, 812, 0)
	c := runs.Claim{ID: id, Runner: "r", LeaseMs: 300_000, Jobs: 100, Runs: 1}
	r := runs.Run{First: job.Job{ID: id, Client: "acme", Type: "resize", RunAttempts: 1, Progress: -1, UpdatedAt: id.At(), DeadlineAt: id.At() + c.LeaseMs}, N: 100, Frame: job.LineFrame}
	r.First.Attributes = job.Attributes{Kind: job.Text, Priority: job.DefaultPriority, MaxAttempts: job.DefaultMaxAttempts, LeaseMs: c.LeaseMs}
	payload := bytes.Repeat([]byte{'x'}, 100)
	lines := []byte(`{"claim_id":"` + id.String() + `","lease_ms":300000}` + "\n")
	for i := range r.N {
		r.Parts = append(r.Parts, append(bytes.Clone(payload), '\n'))
		lines = append(lines, `{"job_id":"`+r.ID(i).String()+`","batch_id":"`+id.String()+`","client":"acme","type":"resize","status":"active","priority":4,"payload":"`...)
		lines = append(lines, payload...)
		lines = append(lines, `","attempts":[],"runner_id":"r","claim_id":"`+id.String()+`","run_attempts":1,"max_attempts":3,"redrives":0,"lease_ms":300000,"created_at":1790000000000,"updated_at":1790000000000,"deadline_at":1790000300000,"meta":{}}`+"\n"...)
	}
	for _, form := range []transport.Answer{
		{MediaType: runs.MediaType, Body: runs.AppendRun(runs.AppendClaim(nil, &c), &c, &r)},
		{MediaType: transport.MimeNDJSON, Body: lines},
	} {
		b.Run(form.MediaType[len("application/"):], func(b *testing.B) {
			b.SetBytes(int64(len(form.Body)))
			b.ReportAllocs()
			for b.Loop() {
				claim, err := decodeClaim(form)
				if err != nil || len(claim.Jobs) != 100 {
					b.Fatal(err)
				}
			}
		})
	}
}
