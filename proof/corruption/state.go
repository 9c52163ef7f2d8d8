package corruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// state is everything that users can see.
type state struct {
	docs      map[job.ID]string
	sessions  map[job.ID]string
	batches   map[job.ID]string
	lists     string // of batches
	queues    string
	sweeps    string
	documents string // of all kinds, with their histories
}

// difference describes the first difference between s and want. Parts that could not be read are not compared.
func (s *state) difference(want *state) string {
	for _, part := range []struct {
		what      string
		got, want map[job.ID]string
	}{{"job", s.docs, want.docs}, {"session", s.sessions, want.sessions}, {"batch", s.batches, want.batches}} {
		for id, doc := range part.got {
			if part.want[id] != doc {
				return fmt.Sprintf("%s %v is %s, was %s", part.what, id, doc, part.want[id])
			}
		}
	}
	for _, part := range []struct{ what, got, want string }{
		{"lists of batches", s.lists, want.lists}, {"queues", s.queues, want.queues}, {"sweeps", s.sweeps, want.sweeps}, {"named documents", s.documents, want.documents},
	} {
		if part.got != "" && part.got != part.want {
			return fmt.Sprintf("%s are %s, were %s", part.what, part.got, part.want)
		}
	}
	return ""
}

// engineOptions sets small segments and volumes, a small disk, so that the ballast is small, and a short time between
// heartbeats, so that a runner is lost soon.
func engineOptions(dir string, retain int64) ingest.Options {
	return ingest.Options{
		Dir: dir, JournalRetain: retain, AllowClockAhead: true, RunnerHeartbeat: time.Millisecond, History: job.MinHistoryBytes, HistoryAge: time.Hour,
		Journal: journal.Options{SegmentBytes: 900, VolumeBytes: 2500},
		Store:   store.Options{Small: true, MemtableBytes: 1 << 20, CacheBytes: 1 << 20},
		Space:   func(string) (free, total uint64, err error) { return 1 << 20, 1 << 20, nil },
	}
}

// errUnsettled means that something did not happen in time. So it is unknown what users would see in the end.
var errUnsettled = errors.New("undecided, machine too slow")

// await waits until a condition holds, or returns errUnsettled.
func await(what string, holds func() (bool, error)) error {
	for deadline := time.Now().Add(maxSettle); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if done, err := holds(); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s: not within %v", errUnsettled, what, maxSettle)
}

// errPanicked wraps the text of a panic.
var errPanicked = errors.New("panic")

// running is an engine that serves.
type running struct {
	*ingest.Engine
	cancel context.CancelFunc
	ended  chan error
}

// open starts an engine and waits until it serves.
func open(o ingest.Options) (r *running, err error) {
	e, err := ingest.Open(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r = &running{e, cancel, make(chan error, 1)}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				r.ended <- fmt.Errorf("%w: %v", errPanicked, p)
			}
		}()
		r.ended <- e.Run(ctx)
	}()
	for e.Ready() != nil {
		select {
		case err := <-r.ended:
			if err == nil {
				err = errors.New("the engine ended without an error before it was ready")
			}
			return nil, err
		case <-time.After(50 * time.Microsecond):
		}
	}
	return r, nil
}

func (r *running) stop() error {
	r.cancel()
	return <-r.ended
}

// settle waits until no work is due. Before that, users see changes.
func (r *running) settle() error {
	return await("no work is due", func() (bool, error) {
		st := r.Stats()
		return st.NextDue == 0 || st.NextDue > st.Now || r.Ready() != nil, nil // if it refuses writes, it proposes no ticks; its reads say why
	})
}

// maxSettle bounds the time that a server may take for due work. Most take some milliseconds.
const maxSettle = 2 * time.Minute

// see reads everything. It returns the error of the first read that failed, and a state with the results of all other
// reads.
func (r *running) see(f *fixture) (*state, error) {
	if err := r.settle(); err != nil {
		return &state{}, err
	}
	if err := r.CatchUp(context.Background(), 0); err != nil {
		return &state{}, err
	}
	var first error
	s := &state{docs: map[job.ID]string{}, sessions: map[job.ID]string{}, batches: map[job.ID]string{}}
	see := func(into map[job.ID]string, id job.ID, missing error, doc string, err error) {
		switch {
		case errors.Is(err, missing):
			into[id] = "not found"
		case err != nil:
			first = errors.Join(first, err)
		default:
			into[id] = doc
		}
	}
	for _, id := range f.jobs {
		doc, err := r.Queries().Job(id)
		see(s.docs, id, job.NotFound, fmt.Sprintf("%v %s %q %v %d %d/%d %q %q %s (%v) %s attempts %s, by %v, hops %d, meta %q, key %q, on_complete %q", doc.Status, doc.Client, doc.Payload, doc.Code, doc.ExitCode,
			doc.RunAttempts, doc.MaxAttempts, doc.Error, doc.Output, doc.OutputAddr, doc.OutputAddrKind, doc.LogAddr, attempts(doc.Attempts), doc.Claim, doc.Hops, doc.Meta, doc.UniqueKey, doc.OnComplete), err)
	}
	for _, id := range f.sessions {
		doc, err := r.Queries().SessionDocument(id)
		see(s.sessions, id, job.SessionNotFound, fmt.Sprintf("of %q, used at %d, slots %v", doc.Runner, doc.UsedAt, doc.Slots), err)
	}
	for _, id := range f.batches {
		doc, err := seeBatch(r.Queries(), id)
		see(s.batches, id, job.BatchNotFound, doc, err)
	}
	lists, err := seeBatchLists(r.Queries())
	if err != nil {
		return s, errors.Join(first, err)
	}
	s.lists = lists
	queues, _, err := r.Queries().Queues(&job.Scope{}, "", "", "", 100)
	if err != nil {
		return s, errors.Join(first, err)
	}
	for _, q := range queues {
		s.queues += fmt.Sprintf("%s/%s %v %v; ", q.Client, q.Type, q.Paused, q.Counts)
	}
	documents, err := seeDocuments(r.Queries())
	if err != nil {
		return s, errors.Join(first, err)
	}
	s.documents = documents
	sweeps, err := r.Queries().Sweeps()
	if err != nil {
		return s, errors.Join(first, err)
	}
	s.sweeps = fmt.Sprintf("%d: ", len(sweeps)) // never empty, since an empty text means that they could not be read
	for _, w := range sweeps {                  // without their times, since these come from ticks that may be repeated
		s.sweeps += fmt.Sprintf("%v: %v %s/%s %v moved %d, left %d, finished %v; ", w.ID, w.Op, w.Client, w.Type, w.Batch, w.Moved, w.Skipped, w.FinishedAt != 0)
	}
	return s, first
}

// attempts describes runs that did not succeed, without their times, since these come from ticks that may be repeated.
func attempts(list []job.Attempt) string {
	text := fmt.Sprint(len(list))
	for _, t := range list {
		text += fmt.Sprintf(" (%v by %q: %v %d %q, of %v, log %q)", t.Why, t.Runner, t.Code, t.ExitCode, t.Error, t.Claim, t.LogAddr)
	}
	return text
}

// seeDocuments reads all versions of the named documents that exist, and of the one that was deleted.
func seeDocuments(q *query.Queries) (text string, err error) {
	for kind := range job.DocumentKinds {
		list, _, listErr := q.Documents(&job.Scope{}, kind, "", "", 100)
		err = errors.Join(err, listErr)
		text += fmt.Sprintf("%d %v: ", len(list), kind) // never empty, like state.sweeps
		for _, d := range append(list, document.Named{Name: "gone"}) {
			history, historyErr := q.DocumentHistory(kind, d.Client, d.Name)
			if historyErr != kind.Rules().NotFound {
				err = errors.Join(err, historyErr)
			}
			for _, v := range history {
				text += fmt.Sprintf("%+v ", v)
				if !v.Deleted && !v.Gone {
					_, stored, readErr := q.Document(kind, d.Client, d.Name, v.Version)
					text, err = text+string(stored), errors.Join(err, readErr)
				}
				text += "; "
			}
		}
	}
	return text, err
}

// seeBatch reads all of a batch with attributes.
func seeBatch(q *query.Queries, id job.ID) (string, error) {
	doc, err := q.Batch(id)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%v since %d, %d lines, %v, %d of %d jobs, first failed %v, %+v", doc.Status, doc.EndedAt, doc.Lines, doc.Counts, doc.Ended, doc.Jobs, doc.Failed, *doc.Submission)
	metadata, err := q.BatchMetadata(id)
	if err != nil {
		return "", err
	}
	by, err := q.BatchOfSnowflake(doc.Submission.Snowflake)
	if err != nil {
		return "", err
	}
	results, err := q.Results(id, 0, 100, 1<<20)
	if err != nil {
		return "", err
	}
	text += fmt.Sprintf(", metadata %q, by its snowflake %v, results up to %d of lines %v, wait for %v, end %v", metadata, by, results.Next, results.Line, results.Wait, results.End)
	for i := range results.Jobs {
		text += fmt.Sprintf(", %v %v %q %q", results.Jobs[i].ID, results.Jobs[i].Status, results.Jobs[i].Output, results.Jobs[i].Error)
	}
	return text, nil
}

// seeBatchLists lists batches through each of their indexes.
func seeBatchLists(q *query.Queries) (string, error) {
	counts, err := q.BatchCounts(group.Client, filledType)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%v", counts)
	filters := []query.BatchFilter{{Name: "nightly"}, {NamePrefix: "n"}, {Meta: map[string]string{"user": "7"}}}
	for status := job.BatchInProgress; int(status) < job.NumBatchStatus; status++ {
		filters = append(filters, query.BatchFilter{Status: status})
	}
	for _, f := range filters {
		text += "; "
		for f.Limit = 100; ; {
			docs, next, err := q.Batches(f)
			if err != nil {
				return "", err
			}
			for i := range docs {
				text += fmt.Sprintf("%v %v ", docs[i].ID, docs[i].Status)
			}
			if f.After = next; next.IsZero() {
				break
			}
		}
	}
	return text, nil
}

// idle waits until no work is due and the journal ends with a mark. It returns the files of dir at that time.
func (r *running) idle(dir string) (files map[string][]byte, err error) {
	return files, await("the journal ends with a mark", func() (bool, error) {
		if err := r.settle(); err != nil {
			return false, err
		}
		before := r.Stats().Appended
		if files, err = load(dir); err != nil || before != r.Stats().Appended {
			return false, nil // the server still changed something, for example removed a file
		}
		f := &fixture{files: files}
		f.trimRoom()
		records := f.records()
		return len(records) > 0 && records[len(records)-1].verb == journal.MarkVerb, nil
	})
}
