package api

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// statesDocument is a job in etcdq's form.
type statesDocument struct {
	Container jsontext.Value `json:"Container" doc:"that of the payload, with the ID and the image of the container that ran; null if the payload has none"`
	Fileset   jsontext.Value `json:"Fileset" doc:"that of the payload; null if it has none"`

	Owner  string       `json:"Owner" doc:"the runner; empty while the job waits"`
	States []state      `json:"States" minItems:"1" doc:"oldest first; the last one is the current state"`
	Result *stateResult `json:"Result" doc:"null until the job has ended"`
}

type state struct {
	State string `json:"State" enum:"QUEUED,STARTED,FINISHED"`
	Step  string `json:"Step"`
	Date  string `json:"Date" format:"date-time"`

	at        int64
	run, part int // they order the states of one time
}

type stateResult struct {
	Status string `json:"Status" enum:"SUCCESS,FAILURE"`
	Info   string `json:"Info" doc:"the error"`
}

// answerStates answers with the states of a job: its creation, the beginning of each run, the steps of all runs, the
// end of each run after which the job waited again, and the end of the job.
func (s *jobs) answerStates(c echo.Context, held *web.Share, j *job.Job) error {
	const queued, started, finished = "QUEUED", "STARTED", "FINISHED"
	doc := statesDocument{Owner: j.Runner}
	var err error
	if doc.Container, doc.Fileset, err = containerOf(j); err != nil {
		return err
	}
	// At equal times, a run's beginning sorts before its steps, the steps before its end, and each run before the next.
	const begin, middle, end = 0, 1, 2
	add := func(name, step string, at int64, run, part int) {
		doc.States = append(doc.States, state{name, step, time.UnixMilli(at).UTC().Format(time.RFC3339Nano), at, run, part})
	}
	add(queued, "", j.CreatedAt, -1, begin)
	for i := range j.Attempts {
		a, last := &j.Attempts[i], i == len(j.Attempts)-1
		if a.StartedAt > 0 && (!last || a.StartedAt != j.Claim.At()) { // the beginning of the current claim's run is added below
			add(started, "Allocated", a.StartedAt, i, begin)
		}
		if !last || !j.Status.Terminal() {
			add(queued, "", a.At, i, end)
		}
	}
	runOf := func(at int64) int { // the first run that ended at this time or later
		i, _ := slices.BinarySearchFunc(j.Attempts, at, func(a job.Attempt, at int64) int { return cmp.Compare(a.At, at) })
		return i
	}
	if !j.Claim.IsZero() {
		run := len(j.Attempts)
		if run > 0 && j.Attempts[run-1].StartedAt == j.Claim.At() {
			run--
		}
		add(started, "Allocated", j.Claim.At(), run, begin)
	}
	for _, step := range j.Steps {
		add(started, step.Name, step.At, runOf(step.At), middle)
	}
	slices.SortStableFunc(doc.States, func(a, b state) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.run, b.run), cmp.Compare(a.part, b.part))
	})
	if j.Status.Terminal() {
		add(finished, "", j.CompletedAt, len(j.Attempts), end)
		doc.Result = &stateResult{Status: "FAILURE", Info: j.Error}
		if j.Status == job.Completed {
			doc.Result = &stateResult{Status: "SUCCESS"}
		} else if j.Error == "" {
			doc.Result.Info = j.Status.String()
		}
	}
	text, err := web.EncodePage(c.Request().Context(), held, &doc)
	if err != nil {
		return err
	}
	return web.AnswerTagged(c, web.MIMEJSON, text, text)
}

// containerOf returns the container and the fileset of a job for etcdq's clients, or nil if the payload has another
// form.
func containerOf(j *job.Job) (container, fileset jsontext.Value, err error) {
	var asked struct{ Container, Fileset jsontext.Value }
	if j.Kind != job.JSON || json.Unmarshal(j.Payload, &asked) != nil { // any JSON value may be a payload
		return nil, nil, nil
	}
	var c struct {
		ID    string         `json:"ID,omitzero"`
		Image string         `json:"Image,omitzero"`
		Rest  jsontext.Value `json:",embed"`
	}
	if asked.Container.Kind() != jsontext.KindBeginObject || json.Unmarshal(asked.Container, &c) != nil {
		return asked.Container, asked.Fileset, nil
	}
	var ran struct {
		ID    string `json:"container_id"`
		Image string `json:"image_id"`
	}
	if j.OutputKind != job.JSON || json.Unmarshal(j.Output, &ran) != nil || ran.ID == "" {
		return asked.Container, asked.Fileset, nil
	}
	c.ID, c.Image = ran.ID, ran.Image
	container, err = json.Marshal(&c)
	return container, asked.Fileset, err
}

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
