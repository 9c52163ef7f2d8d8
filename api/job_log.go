package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/job"
)

const (
	// maxLogReaders bounds the requests that follow logs. Each occupies a connection that other clients need too.
	maxLogReaders = 256
	codeNoLog     = "log_not_found"
)

// jobLogs are the logs of running jobs.
type jobLogs struct {
	*joblog.Logs
	readers followers
}

// withLogs says which jobs have logs.
const withLogs = "only containers have logs, and programs whose handler has log_bytes; what a script prints is in the log of its runner"

func noLog(detail string) *web.Problem {
	return &web.Problem{Status: http.StatusNotFound, Code: codeNoLog, Detail: detail}
}

// logs are what running jobs print.
type logs struct {
	reader
	web      *web.Server
	kept     *jobLogs
	blobs    *files.Blobs
	draining context.Context // done when the shutdown begins
}

func (s *logs) routes(r operation.Rules) []route {
	text := openapi.Plain(openapi.Of("string"))
	return []route{
		written(r, http.MethodGet, "/jobs/:id/log", operation.About{
			ID: "jobLog", Tag: "Reading", Summary: "Read what a job has printed",
			Text: "Of a job that has not ended, the last 256 KiB that its runner has sent. With `follow`, the answer goes on until the\n" +
				"job ends. Of a job that has ended, the blob that `log_addr` names.\n",
			Replies:  []operation.Reply{{Status: http.StatusOK, Text: "the log", Content: map[string]openapi.Shape{web.MIMEText: text}}},
			Refusals: []int{404, 429, 503},
		}, s.read),
		written(r, http.MethodPost, "/jobs/:id/log", operation.About{
			ID: "appendLog", Tag: "Running", Summary: "Add to the log of a job that runs",
			Text: "The body is what the job has printed, at most 256 KiB. The server keeps the end of it in memory until a minute after\n" +
				"the end of the job.\n",
			Bodies:   map[string]openapi.Shape{web.MIMEText: openapi.Plain(openapi.Text(0, joblog.MaxBytes)), echo.MIMEOctetStream: openapi.Plain(bytesSchema())},
			Replies:  []operation.Reply{{Status: http.StatusNoContent, Text: "The text was added, or was there already."}},
			Refusals: []int{404, 409, 503},
		}, s.append).often(),
	}
}

type logRequest struct {
	onlyID
	Claim  job.ID `query:"claim_id" required:"true" doc:"the claim that holds the job"`
	Offset int64  `query:"offset" required:"true" minimum:"0" maximum:"1152921504606846976" doc:"the place of the body in all that this run of the job has printed"`
	caughtUp
}

// append adds new output of a job, which its runner sends.
func (s *logs) append(c echo.Context, in *logRequest) error {
	id, claim := in.ID, in.Claim
	body, err := web.ReadBody(c, &s.bodies.log)
	if err != nil {
		return err
	}
	defer body.Release()
	end, err := s.engine.AwaitEnd(id) // before it reads the job, so that its end is not missed
	if err != nil {
		return err
	}
	if err = s.engine.CatchUp(c.Request().Context(), in.MinSeq); err == nil {
		err = s.holds(c, id, claim)
	}
	if err != nil {
		end.Stop()
		return err
	}
	s.kept.Append(id, claim, in.Offset, body.Bytes, end)
	return c.NoContent(http.StatusNoContent)
}

// holds refuses a request unless the job runs under the claim.
func (s *logs) holds(c echo.Context, id, claim job.ID) error {
	j, held, err := s.readJob(c, s.documents, id)
	defer held.Release()
	switch {
	case err != nil:
		return err
	case j.Status == job.Cancelled:
		return refusal.Err(job.WasCancelled)
	case j.Status != job.Active:
		return refusal.Err(job.NotActive)
	case j.Claim != claim:
		return refusal.Err(job.ClaimLost)
	}
	return nil
}

type logQuery struct {
	onlyID
	Follow bool `query:"follow" doc:"whether the answer goes on until the job ends"`
	caughtUp
}

// read answers with the kept output of a job. With follow, the answer continues with new output until the job ends. For a
// job that has ended, the answer is the blob that the runner has stored.
func (s *logs) read(c echo.Context, in *logQuery) error {
	id, ctx := in.ID, c.Request().Context()
	if err := s.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return err
	}
	end, err := s.engine.AwaitEnd(id)
	if err != nil {
		return err
	}
	defer end.Stop()
	if err := s.engine.CatchUp(ctx, in.MinSeq); err != nil { // so that no end before the wait is missed
		return err
	}
	j, held, err := s.readJob(c, s.documents, id)
	held.Release()
	if err != nil {
		return err
	}
	if j.Status.Terminal() {
		return s.stored(c, &j)
	}
	reader := s.kept.Reader(id)
	if !in.Follow || c.Request().Method == http.MethodHead {
		if _, _, exists := s.kept.Reader(id).Next(); !exists {
			return noLog("the server has nothing of a log of the job, which has not ended; ?follow=true waits for it; " + withLogs)
		}
		logHeaders(c)
		return s.send(c, reader, nil)
	}
	leave, err := s.kept.readers.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	logHeaders(c)
	c.Response().WriteHeader(http.StatusOK)
	c.Response().Flush() // now the client knows that the job exists
	return s.send(c, reader, end)
}

func logHeaders(c echo.Context) {
	h := c.Response().Header()
	h[echo.HeaderContentType] = []string{web.MIMEText + "; charset=utf-8"}
	h["X-Content-Type-Options"] = web.Nosniff
}

// send sends a log to its reader: everything until the end of the job, or only the present text if end is nil.
func (s *logs) send(c echo.Context, reader *joblog.Reader, end joblog.End) error {
	w, ended := c.Response(), false
	for {
		text, changed, _ := reader.Next()
		if len(text) > 0 {
			if _, err := w.Write(text); err != nil {
				return nil // the client hung up
			}
			continue
		}
		if end == nil && !w.Committed {
			w.WriteHeader(http.StatusOK)
		}
		if end == nil || ended {
			return nil
		}
		w.Flush()
		select {
		case <-changed:
		case <-end.Done():
			ended = true // the last part may have arrived just before
		case <-s.draining.Done():
			panic(http.ErrAbortHandler) // otherwise the client would take it for the end of the log
		case <-c.Request().Context().Done():
			if errors.Is(context.Cause(c.Request().Context()), context.Canceled) {
				return nil // the client hung up
			}
			panic(http.ErrAbortHandler) // the key is not good any more
		}
	}
}

// stored answers with the log of a job that has ended: the blob that the job names, or the text that is still in
// memory.
func (s *logs) stored(c echo.Context, j *job.Job) error {
	ref, err := blob.Parse(j.LogAddr)
	if err != nil || ref.SHA256 == nil || s.blobs.Storage == nil {
		if _, _, exists := s.kept.Reader(j.ID).Next(); !exists {
			return noLog("no log of the job is kept; its log_addr says if it is elsewhere; " + withLogs)
		}
		logHeaders(c)
		return s.send(c, s.kept.Reader(j.ID), nil)
	}
	of, err := s.blobs.Storage.Store()
	if err != nil {
		return err
	}
	held, err := web.Hold(c, s.downloads, web.StreamBytes)
	defer held.Release()
	if err != nil {
		return err
	}
	b, err := of.Get(c.Request().Context(), j.Client, *ref.SHA256)
	if errors.Is(err, blob.ErrNotFound) {
		return noLog("the blob " + ref.String() + " with the log of the job was deleted")
	}
	if err != nil {
		return s.blobs.Damage(err)
	}
	defer b.Close() // it was only read
	if b.Info().Size <= files.VerifiedFirst {
		if err := s.blobs.Damage(b.Verify()); err != nil {
			return err
		}
	}
	logHeaders(c)
	if c.Request().Method == http.MethodHead {
		return c.NoContent(http.StatusOK)
	}
	return s.blobs.Send(c, b)
}

// registerMetrics makes the metrics of the logs of jobs.
func (logs *jobLogs) registerMetrics(registry *prometheus.Registry) {
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func(joblog.Stats) int64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(logs.Stats())) }))
	}
	gauge("daybook_job_logs", "Logs of jobs in memory.", func() float64 { return float64(logs.Stats().Logs) })
	gauge("daybook_job_log_bytes", "Bytes of the logs in memory.", func() float64 { return float64(logs.Stats().Bytes) })
	gauge("daybook_job_log_readers", "Requests that follow the log of a job.", func() float64 { return float64(logs.readers.now()) })
	counter("daybook_job_log_appended_bytes_total", "Bytes of logs that runners have sent.", func(s joblog.Stats) int64 { return s.AppendedBytes })
	counter("daybook_job_log_missing_bytes_total", "Bytes of logs that runners could not send in time.", func(s joblog.Stats) int64 { return s.MissingBytes })
	counter("daybook_job_logs_dropped_total", "Logs dropped from memory before the end of their jobs to make room.", func(s joblog.Stats) int64 { return s.Dropped })
}
