package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/query"
)

// maxResultReaders bounds the requests that follow results. Each occupies a connection that other clients need too.
const maxResultReaders = 256

// resultFields are the job document's fields in a result, without line and job_id.
var resultFields = func() (fields []answer.Field) {
	chosen, err := answer.SelectFields("status,code,exit_code,error,output,output_b64,output_addr,output_addr_kind,log_addr,why,completed_at,meta,process_exit")
	if err != nil {
		panic(err)
	}
	return chosen.Fields
}()

// results are the results of the jobs of a batch.
type results struct {
	reader
	web      *web.Server
	readers  *followers
	draining context.Context // done when the shutdown begins
}

func (s *results) routes(r operation.Rules) []route {
	return []route{
		written(r, http.MethodGet, "/batches/:id/results", operation.About{
			ID: "results", Tag: "Reading", Summary: "Read the results of a batch",
			Text: "The answer has a line for each job that has ended, in the order of their lines in the batch, up to the first job\n" +
				"that has not. Jobs that are purged have none. The last line is {\"next\": …, \"end\": …, \"status\": …}: a later request\n" +
				"with from=next continues there; end is true if no result follows. An answer without it is cut off.\n" +
				"With Accept: application/vnd.daybook.runs, the answer has the same in runs: a line for each stretch of jobs whose\n" +
				"results have everything but their outputs in common, and the outputs as they were reported.\n",
			Replies: []operation.Reply{{Status: http.StatusOK, Text: "the results", Content: map[string]openapi.Shape{
				web.MIMENDJSON: openapi.ListOf(openapi.OneOf(answered[batchResult](), answered[resultsEnd]())),
				web.MIMERuns: inRuns("#:batch v=1 batch_id=01a0c450-5878-7000-8000-000001c00000 from=0\n" +
					"#:run line=0 job_id=01a0c450-5878-7000-8000-000001c00000 n=2 status=completed code=ok why=reported completed_at=1790000001000 kind=text frame=line bytes=13\n" +
					"first\nsecond\n#:end next=2 end=true status=completed\n"),
			}}},
			Refusals: []int{404, 429, 503},
		}, s.read),
	}
}

// batchResult describes a result of a job, which also has other fields of the job's document.
type batchResult struct {
	Line        int64  `json:"line" minimum:"0" doc:"the number of the job in the batch"`
	JobID       job.ID `json:"job_id"`
	Status      string `json:"status" enum:"completed,failed,cancelled"`
	ProcessExit *int64 `json:"process_exit,omitzero" doc:"the exit status of a process"`
}

// resultsEnd is the last line of an answer.
type resultsEnd struct {
	Next   int64  `json:"next" minimum:"0"`
	End    bool   `json:"end"`
	Status string `json:"status" schema:"BatchStatus"`
}

func describeResults(s *openapi.Schemas) {
	openapi.Rule[batchResult](s, func(o *openapi.Schema) { o.AdditionalProperties = nil })
}

type resultsQuery struct {
	onlyID
	From   int64  `query:"from" minimum:"0" maximum:"9007199254740992" doc:"the line that the results begin with; default: 0"`
	Limit  *int64 `query:"limit" minimum:"1" maximum:"2147483647" doc:"results, at most; default: all"`
	Follow bool   `query:"follow" doc:"the answer waits for jobs that have not ended, until the batch has ended"`
	caughtUp
}

// read answers with a JSON line for each job that has ended, in the order of their lines,
// up to the first job that has not ended. If the Accept header prefers runs, the results are sent in runs. The last
// line says where to continue. With follow, the answer waits for the remaining jobs until the batch has ended.
//
// Only JSON lines that are sent without waiting are compressed. A compressor would withhold results from a waiting
// client. Runs are never compressed, as in claims, because the outputs are copied as they are stored.
func (s *results) read(c echo.Context, in *resultsQuery) error {
	if err := s.engine.CatchUp(c.Request().Context(), in.MinSeq); err != nil {
		return err
	}
	if in.Follow {
		leave, err := s.readers.enter(c.Request().Context())
		if err != nil {
			return err
		}
		defer leave()
	}
	r := resultStream{results: s, c: c, ctx: c.Request().Context(), id: in.ID, after: in.caughtUp, first: in.From, from: in.From, left: -1}
	if in.Limit != nil {
		r.left = int(*in.Limit)
	}
	r.inRuns = web.Preferred(c.Request(), web.MIMERuns, web.MIMENDJSON) == web.MIMERuns
	if c.Request().Method == http.MethodHead {
		if _, err := s.engine.Batch(in.ID); err != nil {
			return err
		}
		r.header()
		return nil
	}
	send := func(echo.Context) error { return r.send(in.Follow) }
	if !in.Follow && !r.inRuns {
		send = s.web.Compressed(send)
	}
	return send(c)
}

// resultStream is an answer with results while it is sent.
type resultStream struct {
	*results
	after  caughtUp
	c      echo.Context
	ctx    context.Context
	id     job.ID
	inRuns bool
	first  int64 // the line that the answer begins with
	from   int64 // the line that the next page begins with
	left   int   // results that may still be sent; negative: all
}

// send sends pages of results until the end.
func (r *resultStream) send(follow bool) error {
	for {
		page, change, end, err := r.next(follow)
		stop := func() {
			for _, w := range []*store.JobEnd{change, end} {
				if w != nil {
					w.Stop()
				}
			}
		}
		switch {
		case err != nil:
			stop()
			return r.fail(err)
		case r.left == 0 || page.End || len(page.Jobs) == 0 && !follow:
			r.from = max(r.from, page.Next)
			stop()
			return r.last(page.End)
		case len(page.Jobs) == 0:
			if err = r.begin(); err == nil {
				r.c.Response().Flush() // now the client knows that the batch exists
				err = r.wait(change, end)
			}
		}
		if stop(); err != nil {
			return r.fail(err)
		}
	}
}

// next sends the next page. If the page is empty, the caller may wait for the end of a job or a change of the batch,
// and must stop both.
func (r *resultStream) next(follow bool) (page query.Results, change, end *store.JobEnd, err error) {
	if follow { // before it reads the results, so that no change is missed
		if change, err = r.engine.AwaitBatch(r.id); err != nil {
			return page, nil, nil, err
		}
	}
	var awaited job.ID
	for {
		// The first page shows which job to wait for, and the second one whether that job ended before AwaitEnd. If the
		// job was purged in between, the page continues after it and names another job to wait for.
		page, err = r.sendPage()
		if err != nil || !follow || len(page.Jobs) > 0 || page.Wait.IsZero() || end != nil && page.Wait == awaited {
			return page, change, end, err
		}
		if end != nil {
			end.Stop()
		}
		awaited = page.Wait
		if end, err = r.engine.AwaitEnd(awaited); err != nil && err != job.NotFound {
			return page, change, nil, err
		}
	}
}

// sendPage reads a page, and sends its results.
func (r *resultStream) sendPage() (page query.Results, err error) {
	held, err := r.page(r.c, r.after, answer.MaxDocumentsBytes)
	if err != nil {
		return page, err
	}
	defer held.Release()
	limit := job.MaxPage
	if r.left >= 0 {
		limit = min(limit, r.left)
	}
	if limit > 0 {
		err = r.pages.Do(r.ctx, func() error {
			page, err = r.engine.Results(r.id, r.from, limit, job.MaxClaimBytes)
			answer.ConcealAll(job.KeyOf(r.ctx), page.Jobs)
			return err
		})
	}
	if err != nil || len(page.Jobs) == 0 {
		return page, err
	}
	if r.from = page.Next; r.left >= 0 {
		r.left -= len(page.Jobs)
	}
	return page, web.WithBuffer(func(b []byte) ([]byte, error) {
		if r.inRuns {
			return r.runs(b, &page)
		}
		return r.lines(b, &page)
	})
}

// lines sends the results of a page as JSON lines.
func (r *resultStream) lines(b []byte, page *query.Results) (_ []byte, err error) {
	for i := range page.Jobs {
		b = append(b, `{"line":`...)
		b = strconv.AppendInt(b, page.Line[i], 10)
		b = append(b, `,"job_id":`...)
		b = answer.AppendID(b, page.Jobs[i].ID)
		b = answer.AppendFields(b, resultFields, &page.Jobs[i], answer.InLines)
		if b, err = r.piece(append(b, "}\n"...)); err != nil {
			return b, err
		}
	}
	return b, r.write(b)
}

// runs sends the results of a page in runs. The outputs are copied as they are stored.
func (r *resultStream) runs(b []byte, page *query.Results) (_ []byte, err error) {
	for jobs, lines := page.Jobs, page.Line; len(jobs) > 0; {
		run, size := runs.FirstOfBatch(jobs, lines)
		b = runs.AppendBatchRunHead(b, &run, size)
		for i := range jobs[:run.N] {
			if b, err = r.piece(run.Frame.Append(b, jobs[i].Output)); err != nil {
				return b, err
			}
		}
		jobs, lines = jobs[run.N:], lines[run.N:]
	}
	return b, r.write(b)
}

// piece sends the text if it is long enough, and returns the unsent rest.
func (r *resultStream) piece(text []byte) ([]byte, error) {
	if len(text) <= web.PieceBytes {
		return text, nil
	}
	return text[:0], r.write(text)
}

// wait waits for one of two changes.
func (r *resultStream) wait(change, end *store.JobEnd) error {
	var ended <-chan struct{}
	if end != nil {
		ended = end.Done()
	}
	select {
	case <-change.Done():
	case <-ended:
	case <-r.draining.Done():
		return web.ErrShuttingDown
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
	return nil
}

// header sends the header of the answer.
func (r *resultStream) header() {
	w := r.c.Response()
	h := w.Header()
	h[echo.HeaderContentType] = []string{web.MIMENDJSON}
	h["X-Content-Type-Options"] = web.Nosniff
	if r.inRuns {
		h[echo.HeaderContentType] = []string{web.MIMERuns}
	}
	w.WriteHeader(http.StatusOK)
}

// begin sends the header and, in runs, the first line, unless they were sent.
func (r *resultStream) begin() (err error) {
	if w := r.c.Response(); !w.Committed {
		if r.header(); r.inRuns {
			_, err = w.Write(runs.AppendBatch(nil, &runs.Batch{ID: r.id, From: r.first}))
		}
	}
	return err
}

func (r *resultStream) write(text []byte) error {
	err := r.begin()
	if err == nil {
		_, err = r.c.Response().Write(text)
	}
	return err
}

// fail answers with the error. After results were sent, it closes the connection instead, so that the client does not
// take the results for complete.
func (r *resultStream) fail(err error) error {
	if r.c.Response().Committed {
		panic(http.ErrAbortHandler)
	}
	return err
}

// last sends the last line.
func (r *resultStream) last(end bool) error {
	batch, err := r.engine.Batch(r.id)
	if err != nil {
		return r.fail(err)
	}
	if r.inRuns {
		return r.write(runs.AppendBatchEnd(nil, &runs.BatchEnd{Next: r.from, End: end, Status: batch.Status}))
	}
	text, err := web.EncodeDocument(resultsEnd{r.from, end, batch.Status.String()})
	if err != nil {
		return r.fail(err)
	}
	return r.write(text)
}
