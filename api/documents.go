package api

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// Every document is a struct in the file of its handler. The JSON library encodes it in the order of its fields. A nil
// pointer is null. Documents of jobs, ids of jobs and results of outcomes are encoded by hand: one answer can have
// hundreds of them, and the library takes 4 to 9 times as long.

// documentOptions make the encoding deterministic, which entity tags require. Texts are checked when they arrive. If a
// text has bytes that are not UTF-8 anyway, the document shows U+FFFD for them.
var documentOptions = json.JoinOptions(json.Deterministic(true), jsontext.AllowInvalidUTF8(true))

// encodeDocument returns the text of a document with a newline after it.
func encodeDocument(document any) ([]byte, error) {
	text, err := json.Marshal(document, documentOptions)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", document, err)
	}
	return append(text, '\n'), nil
}

// encodeHead returns the text of a document without its closing brace. The caller appends a list that is encoded by
// hand.
func encodeHead(head any) ([]byte, error) {
	text, err := json.Marshal(head, documentOptions)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", head, err)
	}
	return text[:len(text)-1], nil
}

// answerDocument writes a document as the whole answer.
func answerDocument(c echo.Context, status int, document any) error {
	text, err := encodeDocument(document)
	if err != nil {
		return err
	}
	return answer(c, status, mimeJSON, text)
}

// encodePage encodes a page of documents, and resizes the share to its text, which can be long.
func encodePage(ctx context.Context, held *share, page any) ([]byte, error) {
	text, err := encodeDocument(page)
	if err != nil {
		return nil, err
	}
	return text, held.resize(ctx, int64(cap(text)))
}

// orNull returns a pointer to v, or nil, which a document shows as null, if v is the zero value.
func orNull[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

// statusOrNull returns the name of a status, and nil for no status.
func statusOrNull(status job.Status) *string {
	if status == 0 {
		return nil
	}
	name := status.String()
	return &name
}

// counts are the numbers of jobs in each status, in the order of job.Statuses.
type counts job.Counts

func (c counts) MarshalJSONTo(to *jsontext.Encoder) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, status := range job.Statuses {
		if err := to.WriteToken(jsontext.String(status.String())); err != nil {
			return err
		}
		if err := to.WriteToken(jsontext.Int(c[status])); err != nil {
			return err
		}
	}
	return to.WriteToken(jsontext.EndObject)
}

// lostJob is a job that the runner does not hold, although it named the job or held it before.
type lostJob struct {
	JobID job.ID `json:"job_id"`
	Code  string `json:"code"`
}

// lostJobs returns the list for a document. It is never nil, because nil would be encoded as null.
func lostJobs(results []applied.JobResult) []lostJob {
	list := make([]lostJob, len(results))
	for i := range results {
		list[i] = lostJob{results[i].ID, results[i].Refusal.Code()}
	}
	return list
}
