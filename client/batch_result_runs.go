package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// errStopped ends a run of results after the caller has stopped the iteration.
var errStopped = errors.New("the caller wants no more results")

// readRuns yields the results of an answer in runs. Any error except ErrUnexpectedAnswer is an error of the connection.
func (r *resultReader) readRuns(body io.Reader) error {
	from := runs.NewBatchReader(body)
	_, err := from.Head()
	for err == nil {
		run, more, failed := from.Next()
		if err = failed; err != nil {
			break
		}
		if !more {
			end := from.End()
			r.next, r.last, r.end = end.Next, true, end.End
			return nil
		}
		if err = r.run(&run); err == errStopped {
			return nil
		}
	}
	if _, malformed := errors.AsType[*runs.Error](err); malformed {
		err = fmt.Errorf("GET %s: %w: %w", r.path, problem.ErrUnexpectedAnswer, err)
	}
	return err
}

// run yields the results of a run. The fields that they have in common are converted once.
func (r *resultReader) run(run *runs.BatchRun) error {
	f := &run.First
	first := BatchResult{
		Status: f.Status.String(), Code: f.Code.String(), ExitCode: f.ExitCode, Error: f.Error, OutputAddr: f.OutputAddr, LogAddr: f.LogAddr,
		Why: f.Why.String(), CompletedAt: f.CompletedAt, Meta: map[string]string{},
	}
	if f.OutputAddrKind != job.Nothing {
		first.OutputAddrKind = Kind(f.OutputAddrKind.String())
	}
	for name, value := range f.Meta.All() {
		first.Meta[name] = value
	}
	return run.Each(func(i int, output []byte) error {
		result := first
		result.Line, result.JobID = run.Line+int64(i), run.ID(i).String()
		// Results must not share memory that the caller may change.
		result.Meta = maps.Clone(first.Meta)
		if f.ProcessExit != nil {
			result.ProcessExit = new(*f.ProcessExit)
		}
		if result.OutputKind = kindIn(f.OutputKind, output); result.OutputKind != None {
			result.Output = bytes.Clone(output)
		}
		r.c.decodeResult(&result)
		r.next = result.Line + 1
		if r.stopped = !r.yield(result, nil); r.stopped {
			return errStopped
		}
		return nil
	})
}
