package opsqueue_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// listedState counts the lists of batches, and how many of them may read batches without attributes.
type listedState struct {
	opsqueue.Queries
	lists, wide atomic.Int64
}

func (s *listedState) Batches(f query.BatchFilter) ([]document.Batch, query.BatchPlace, error) {
	s.lists.Add(1)
	if !f.Attributed {
		s.wide.Add(1)
	}
	return s.Queries.Batches(f)
}

// TestListsOfSubmissionsOnly: no request reads batches without attributes. A server that also serves Daybook's API may
// have very many.
func TestListsOfSubmissionsOnly(t *testing.T) {
	h := newHost(t)
	var state listedState
	h.wrapState = func(q opsqueue.Queries) opsqueue.Queries {
		state.Queries = q
		return &state
	}
	h.start()
	h.insert(stored("p", 1))
	before := state.lists.Load()
	for _, r := range [][4]string{
		{http.MethodGet, "/metrics", "", ""},
		{http.MethodPost, "/producer/submissions/lookup_ids_by_strategic_metadata", "application/json", "{}"},
		{http.MethodGet, "/producer/submissions/lookup_id_by_prefix/p", "", ""},
	} {
		if status, _, text := h.send(r[0], r[1], r[2], r[3]); status != http.StatusOK {
			t.Errorf("%s: %d %s", r[1], status, text)
		}
	}
	if lists, wide := state.lists.Load()-before, state.wide.Load(); lists != 3 || wide > 0 {
		t.Errorf("%d lists, %d of them of all batches", lists, wide)
	}
}
