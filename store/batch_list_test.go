package store

import (
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/query"
)

// TestListOfAttributedBatches: a list that can have only batches with attributes does not look at other batches,
// however many there are.
func TestListOfAttributedBatches(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, job.SetLevel{Level: job.Level})
	const plain = 50
	for i := range uint64(plain) {
		mustApply(t, s, 2+i, 0, plainCreate("a", "x", 1, 3))
	}
	paused := plainCreate("a", "x", 1, 3)
	paused.Submission = &job.Submission{Paused: true}
	mustApply(t, s, 2+plain, 0, paused)
	mustApply(t, s, 3+plain, 0, partOf(job.ID{}, 1))
	mustCommit(t, s)
	for _, c := range []struct {
		name string
		f    query.BatchFilter
		want uint64 // the seq of the first batch
	}{
		{"attributed", query.BatchFilter{Attributed: true, Client: "a", Type: "x"}, 2 + plain},
		{"attributed, in progress", query.BatchFilter{Attributed: true, Status: job.BatchInProgress}, 3 + plain},
		{"paused", query.BatchFilter{Status: job.BatchPaused}, 2 + plain},
	} {
		c.f.Limit = 1
		docs, _, err := s.BatchesWithin(c.f, 4)
		if want := job.NewID(startAt, c.want, 0); err != nil || len(docs) != 1 || docs[0].ID != want {
			t.Errorf("%s: %+v, %v; want %v", c.name, docs, err, want)
		}
	}
}

// TestListByPrefixAfterBatch: a list by prefix can begin after a batch that exists or, with its name, after a deleted
// batch. Wherever it begins, it has only batches whose name begins with the prefix.
func TestListByPrefixAfterBatch(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, job.SetLevel{Level: job.Level})
	var ids []job.ID
	for i, name := range []string{"a", "b", "p", "p", "pq", "q"} {
		c := plainCreate("a", "x", 1, 3)
		c.Submission = &job.Submission{Name: name}
		mustApply(t, s, 2+uint64(i), 0, c)
		ids = append(ids, job.NewID(startAt, 2+uint64(i), 0))
	}
	mustApply(t, s, 8, 1, job.Move{Op: job.Delete, Batch: ids[2]})
	mustCommit(t, s)
	for _, c := range []struct {
		name  string
		after query.BatchPlace
		want  []job.ID
	}{
		{"none", query.BatchPlace{}, ids[3:5]},
		{"batch before the prefix", query.BatchPlace{ID: ids[0]}, ids[3:5]},
		{"name before the prefix", query.BatchPlace{ID: ids[4], Name: "a"}, ids[3:5]},
		{"batch", query.BatchPlace{ID: ids[3]}, ids[4:5]},
		{"deleted batch", query.BatchPlace{ID: ids[2], Name: "p"}, ids[3:5]},
		{"last batch", query.BatchPlace{ID: ids[4], Name: "pq"}, nil},
		{"batch after the prefix", query.BatchPlace{ID: ids[5]}, nil},
	} {
		docs, next, err := s.Batches(query.BatchFilter{NamePrefix: "p", Limit: 9, After: c.after})
		var got []job.ID
		for i := range docs {
			got = append(got, docs[i].ID)
		}
		if err != nil || !next.IsZero() || !slices.Equal(got, c.want) {
			t.Errorf("after %s: %v, %v, %v; want %v", c.name, got, next, err, c.want)
		}
	}
	testkit.Fails2(s.Batches(query.BatchFilter{NamePrefix: "p", Limit: 9, After: query.BatchPlace{ID: ids[2]}}))(t, job.BatchNotFound)
}
