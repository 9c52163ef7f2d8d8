package api

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// batchDocument is the document of a batch. The fields after progress are null in a batch without attributes.
type batchDocument struct {
	BatchID     job.ID         `json:"batch_id"`
	Status      string         `json:"status" schema:"BatchStatus"`
	CreatedAt   int64          `json:"created_at" minimum:"0"`
	EndedAt     *int64         `json:"ended_at" minimum:"0"`
	Count       int64          `json:"count" minimum:"0" doc:"number of jobs that it was given"`
	Counts      answer.Counts  `json:"counts"`
	Purged      int64          `json:"purged" minimum:"0" doc:"number of jobs of the batch that are purged"`
	FailedJobID *job.ID        `json:"failed_job_id" doc:"the job that failed first, and was not redriven since"`
	Error       *string        `json:"error" doc:"the error of that job; null in lists"`
	Progress    *batchProgress `json:"progress" doc:"null when it has ended"`

	Name          *string        `json:"name"`
	Client        *string        `json:"client"`
	Type          *string        `json:"type"`
	Meta          jsontext.Value `json:"meta" schema:"BatchMeta"`
	OnFailure     *string        `json:"on_failure" enum:"continue,cancel_rest"`
	ChunkSize     *int64         `json:"chunk_size"`
	Open          *bool          `json:"open"`
	MetadataBytes *int           `json:"metadata_bytes"`
	RetentionMs   *int64         `json:"retention_ms" doc:"how long it is kept after its end"`
	Snowflake     *int64         `json:"snowflake" doc:"its id in 63 bits"`
	Traceparent   *string        `json:"traceparent"`
	Tracestate    *string        `json:"tracestate"`
	Baggage       *string        `json:"baggage"`
}

// batchProgress is the progress of an unfinished batch. The estimate is null while the batch is open, and if none of
// its jobs has ended lately.
type batchProgress struct {
	Ended      int64   `json:"ended" minimum:"0" doc:"number of jobs that have ended"`
	PerSecond  float64 `json:"per_second" doc:"how many ended per second lately, in the last 10 to 20 seconds or since"`
	EstimateMs *int64  `json:"estimate_ms" doc:"how long the rest takes at that rate"`
}

func progressOf(b *document.Batch, now int64) *batchProgress {
	if b.Status.Ended() {
		return nil
	}
	p := &batchProgress{Ended: b.Ended}
	if ms, n := now-b.Since, b.Ended-b.EndedBefore; ms > 0 && n > 0 {
		p.PerSecond = math.Round(float64(n)*1e6/float64(ms)) / 1e3
		if b.Submission == nil || !b.Submission.Open {
			p.EstimateMs = new(int64)
			*p.EstimateMs = int64(float64(b.Jobs-b.Ended) * float64(ms) / float64(n))
		}
	}
	return p
}

// documentOfBatch returns the document of a batch at a time. reason is the error of its failed job.
func documentOfBatch(b *document.Batch, reason string, now int64) batchDocument {
	doc := batchDocument{
		BatchID: b.ID, Status: b.Status.String(), CreatedAt: b.CreatedAt, EndedAt: web.OrNull(b.EndedAt), Count: b.Lines, Counts: answer.Counts(b.Counts),
		Purged: b.Lines - b.Counts.Total(), FailedJobID: web.OrNull(b.Failed), Error: web.OrNull(reason), Progress: progressOf(b, now),
		Meta: jsontext.Value("null"),
	}
	of := b.Submission
	if of == nil {
		return doc
	}
	onFailure := of.OnFailure.String()
	doc.Name, doc.Client, doc.Type, doc.OnFailure, doc.ChunkSize = web.OrNull(of.Name), &of.Client, &of.Type, &onFailure, web.OrNull(of.ChunkSize)
	doc.Open, doc.MetadataBytes, doc.RetentionMs, doc.Snowflake = &of.Open, &of.MetadataBytes, &of.RetentionMs, &of.Snowflake
	doc.Traceparent, doc.Tracestate, doc.Baggage = web.OrNull(of.Traceparent), web.OrNull(of.Tracestate), web.OrNull(of.Baggage)
	if of.Meta != "" {
		doc.Meta = jsonOfMeta(of.Meta)
	}
	return doc
}

// jsonOfMeta returns the meta of a batch as an object of texts and integers.
func jsonOfMeta(meta job.BatchMeta) jsontext.Value {
	b := []byte{'{'}
	for name, v := range meta.All() {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(append(b, name...), '"', ':')
		if v.IsInteger {
			b = strconv.AppendInt(b, v.Integer, 10)
		} else {
			b = answer.AppendText(b, v.Text)
		}
	}
	return append(b, '}')
}
