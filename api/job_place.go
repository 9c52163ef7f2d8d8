package api

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// placeView is the value of the parameter view that shows the place of a job in its batch.
const placeView = "place"

// placeDocument is the place of a job in its batch. The batch and the line are null if the job belongs to no batch.
type placeDocument struct {
	JobID   job.ID  `json:"job_id"`
	BatchID *job.ID `json:"batch_id" doc:"null if the job belongs to no batch"`
	Line    *int64  `json:"line" minimum:"0" doc:"the number of the job in the batch, from 0 on and over all requests that filled it"`
}

// answerPlace answers with the line of a job in its batch, counted over all requests that filled the batch. For a batch
// with attributes this reads one small row, however large the job is.
func (s *jobs) answerPlace(c echo.Context, id job.ID) error {
	doc := placeDocument{JobID: id}
	batch, line, err := s.engine.LineOf(id)
	switch {
	case err == nil:
		doc.BatchID, doc.Line = &batch, &line
	case !errors.Is(err, job.NotFound):
		return err
	default: // a batch without attributes, or none, or no such job
		j, held, err := s.readJob(c, s.documents, id)
		if err != nil {
			return err
		}
		held.Release()
		if j.Batch.IsZero() {
			break
		}
		if j.Batch != id.WithLine(0) { // a batch with attributes was created since the first read, or its part was purged
			return job.NotFound
		}
		line = int64(id.Line())
		doc.BatchID, doc.Line = &j.Batch, &line
	}
	text, err := web.EncodeDocument(&doc)
	if err != nil {
		return err
	}
	return web.AnswerTagged(c, web.MIMEJSON, text, text)
}
