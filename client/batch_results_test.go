package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

const mimeLines = "application/x-ndjson"

var resultsBatch = job.NewID(1_790_000_000_000, 7, 0)

// someResults are results of a batch whose lines 4 and 5 are purged.
func someResults() (list []job.Job, lines []int64) {
	for line := range 10 {
		j := job.Job{ID: resultsBatch.WithLine(line), Status: job.Completed, Code: job.OK, ExitCode: 200, Why: job.Reported, CompletedAt: 1_790_000_001_000}
		j.OutputKind, j.Output = job.Text, fmt.Appendf(nil, "output %d", line)
		switch line {
		case 2:
			j.Output = []byte("two\nlines")
		case 4, 5:
			continue
		case 6:
			j.Status, j.Code, j.ExitCode, j.Error, j.ProcessExit, j.OutputKind, j.Output = job.Failed, job.Fail, 404, "no, not again", new(int64(3)), job.Nothing, nil
		case 7:
			j.OutputKind, j.Output, j.Meta, j.LogAddr, j.OutputAddr, j.OutputAddrKind = job.JSON, []byte(`{"a":1}`), "user=u%201", "s3://l", "s3://o", job.Bytes
		case 8:
			j.OutputKind, j.Output = job.Bytes, []byte{0, 255, '\n'}
		}
		list, lines = append(list, j), append(lines, int64(line))
	}
	return list, lines
}

// resultsIn returns the answer with someResults from a line on.
func resultsIn(mediaType string, from int64) string {
	list, lines := someResults()
	for len(lines) > 0 && lines[0] < from {
		list, lines = list[1:], lines[1:]
	}
	if mediaType == mimeLines {
		var b strings.Builder
		for i, j := range list {
			output := fmt.Sprintf("%q", j.Output)
			var more string
			switch lines[i] {
			case 6:
				output, more = "null", `,"error":"no, not again","process_exit":3`
			case 7:
				output, more = string(j.Output), `,"output_addr":"s3://o","output_addr_kind":"bytes","log_addr":"s3://l"`
			case 8:
				output, more = "null", `,"output_b64":"AP8K"`
			}
			meta := map[bool]string{true: `{"user":"u 1"}`, false: "{}"}[j.Meta != ""]
			fmt.Fprintf(&b, `{"line":%d,"job_id":"%s","status":"%s","code":"%s","exit_code":%d,"output":%s,"why":"reported","completed_at":%d,"meta":%s%s}`+"\n",
				lines[i], j.ID, j.Status, j.Code, j.ExitCode, output, j.CompletedAt, meta, more)
		}
		return b.String() + `{"next":10,"end":true,"status":"failed"}` + "\n"
	}
	b := runs.AppendBatch(nil, &runs.Batch{ID: resultsBatch, From: from})
	for len(list) > 0 {
		r, size := runs.FirstOfBatch(list, lines)
		b = runs.AppendBatchRunHead(b, &r, size)
		for i := range r.N {
			b = r.Frame.Append(b, list[i].Output)
		}
		list, lines = list[r.N:], lines[r.N:]
	}
	return string(runs.AppendBatchEnd(b, &runs.BatchEnd{Next: 10, End: true, Status: job.BatchFailed}))
}

func linesFrom(c clienttest.Call) int64 {
	from, err := strconv.ParseInt(c.Query.Get("from"), 10, 64)
	if err != nil {
		panic(err)
	}
	return from
}

// wantResults are someResults as the client yields them.
const wantResults = `0 completed ok 200 "output 0" text map[] reported
1 completed ok 200 "output 1" text map[] reported
2 completed ok 200 "two\nlines" text map[] reported
3 completed ok 200 "output 3" text map[] reported
6 failed failed 404 "" none map[] reported 3 no, not again
7 completed ok 200 "{\"a\":1}" json map[user:u 1] reported s3://o s3://l
8 completed ok 200 "\x00\xff\n" bytes map[] reported
9 completed ok 200 "output 9" text map[] reported
`

func printResult(w io.Writer, r client.BatchResult) {
	kind := map[client.Kind]string{client.None: "none", client.Text: "text", client.JSON: "json", client.Bytes: "bytes"}[r.OutputKind]
	fmt.Fprintf(w, "%d %s %s %d %q %s %v %s", r.Line, r.Status, r.Code, r.ExitCode, r.Output, kind, r.Meta, r.Why)
	if r.ProcessExit != nil {
		fmt.Fprintf(w, " %d", *r.ProcessExit)
	}
	for _, text := range []string{r.Error, r.OutputAddr, r.LogAddr} {
		if text != "" {
			fmt.Fprintf(w, " %s", text)
		}
	}
	if r.JobID != resultsBatch.WithLine(int(r.Line)).String() || r.CompletedAt != 1_790_000_001_000 {
		fmt.Fprintf(w, " of job %s at %d", r.JobID, r.CompletedAt)
	}
	fmt.Fprintln(w)
}

// TestCutResults: if an answer is cut at any byte, in either form, each result is yielded once.
func TestCutResults(t *testing.T) {
	for _, mediaType := range []string{runs.MediaType, mimeLines} {
		header := http.Header{"Content-Type": {mediaType}}
		for cut := range len(resultsIn(mediaType, 0)) + 1 {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				f := &clienttest.Fake{Answer: func(c clienttest.Call) clienttest.Reply {
					if requests++; requests > 1 {
						return clienttest.Reply{Status: http.StatusOK, Header: header, Body: resultsIn(mediaType, linesFrom(c))}
					}
					whole := resultsIn(mediaType, 0)
					broken := io.MultiReader(strings.NewReader(whole[:cut]), iotest.ErrReader(io.ErrUnexpectedEOF))
					return clienttest.Reply{Status: http.StatusOK, Header: header, Stream: io.NopCloser(broken)}
				}}
				var got strings.Builder
				for r, err := range f.Client(client.Options{}).Results(t.Context(), resultsBatch.String(), client.ResultsQuery{Follow: cut%2 == 0}) {
					testkit.NoError(t, err)
					printResult(&got, r)
				}
				testkit.MustEqual(t, got.String(), wantResults, mediaType, "cut at byte", cut, "results are")
			})
		}
	}
}

// TestMalformedResults: a malformed answer does not cause another request.
func TestMalformedResults(t *testing.T) {
	for name, text := range map[string]string{
		"another section": "#:claim v=1 jobs=0 runs=0\n",
		"another version": "#:batch v=2 batch_id=" + resultsBatch.String() + " from=0\n",
		"no runs":         "<html>a proxy</html>\n",
		"an unknown line": strings.Replace(resultsIn(runs.MediaType, 0), "#:end", "#:ends", 1),
		"too few bytes":   strings.Replace(resultsIn(runs.MediaType, 0), "bytes=", "bytes=1", 1),
	} {
		t.Run(name, func(t *testing.T) {
			f := clienttest.InTurn(clienttest.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {runs.MediaType}}, Body: text + strings.Repeat("x", 1<<10)})
			var last error
			for _, err := range f.Client(client.Options{}).Results(t.Context(), resultsBatch.String(), client.ResultsQuery{}) {
				last = err
			}
			testkit.Holds(t, errors.Is(last, problem.ErrUnexpectedAnswer) && len(f.All()) == 1, last, "after", len(f.All()), "requests")
		})
	}
}

// TestStoppedResults: a caller that stops gets no more results, also in the middle of a run.
func TestStoppedResults(t *testing.T) {
	for _, mediaType := range []string{runs.MediaType, mimeLines} {
		f := clienttest.InTurn(clienttest.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {mediaType + "; q=1"}}, Body: resultsIn(mediaType, 0)})
		n := 0
		for r, err := range f.Client(client.Options{}).Results(t.Context(), resultsBatch.String(), client.ResultsQuery{}) {
			n++
			testkit.Holds(t, err == nil && r.Line == int64(n-1), mediaType, r, err)
			if n == 2 {
				break
			}
		}
		if calls := f.All(); n != 2 || len(calls) != 1 || calls[0].Header.Get("Accept") != runs.MediaType+", "+mimeLines {
			t.Errorf("%s: %d results, requests %+v", mediaType, n, calls)
		}
	}
}
