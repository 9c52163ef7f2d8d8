package check

import (
	"errors"
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

type checker struct {
	v        *lsm.Snapshot
	meta     row.Meta
	bounds   *memory.Bounds
	rules    row.Rules // of the level of the store, or of bounds
	groups   row.GroupReader
	lengths  row.PageSizes
	queues   map[uint32]*recount
	named    claimCount // by all spans and leases of single lines
	found    claimCount // of named: lines and leases that belong to their claims
	distinct map[byte]*distinctCheck
	rows     map[byte]int64 // rows that must exist, by table
	report   func(string) bool
	problems int
}

type recount struct {
	counts     job.Counts
	bytes      int64 // of payloads
	priorities row.Priorities
	lanes      []laneCount
}

// laneCount is the number of pending jobs of a lane.
type laneCount struct {
	row.LaneID
	pending int64
}

func (r *recount) Lane(id row.LaneID) *laneCount {
	for i := range r.lanes {
		if l := &r.lanes[i]; l.LaneID == id {
			return l
		}
	}
	r.lanes = append(r.lanes, laneCount{LaneID: id})
	return &r.lanes[len(r.lanes)-1]
}

type claimCount struct{ held, refs, jobLeases int }

func (c *checker) problem(format string, args ...any) {
	c.problems++
	if !c.report(fmt.Sprintf(format, args...)) {
		panic(errEnough)
	}
}

// distinctCheck is an index of prefer_distinct while its rows are compared with the spans.
type distinctCheck struct {
	row.DistinctState
	x       *memory.DistinctIndex // empty: it knows the order of spans
	keys    []string
	leaves  map[string]*distinctLeafCheck
	counted uint64 // hashed sums of the rows' counts of active jobs, and of the active jobs, by key and value
	active  uint64
}

type distinctLeafCheck struct {
	id    uint64
	said  row.DistinctLeaf
	spans int64
	first row.Waiting
}

// guard reports an unreadable row as a problem, and continues after the code that needs it.
func (c *checker) guard(look func(), format string, args ...any) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *row.Error:
			c.problem("%s: %v", fmt.Sprintf(format, args...), r.Err)
		default:
			panic(r)
		}
	}()
	look()
}

// table calls visit with every row of a table. visit may use other tables.
func (c *checker) table(table byte, visit func(key string, value []byte)) {
	entry := 0
	c.v.Scan(string(table), string(table+1), func(key string, value []byte) bool {
		if CheckRows != nil {
			CheckRows(table, entry)
		}
		entry++
		if row.WellFormed(key) {
			c.guard(func() { visit(key, value) }, "row %x", key)
		}
		return true
	})
}

func (c *checker) queue(id uint32) *recount {
	if c.queues[id] == nil {
		c.queues[id] = &recount{}
	}
	return c.queues[id]
}

func (c *checker) must(key string) {
	if key != "" {
		c.rows[key[0]]++
		if c.v.Get(key) == nil {
			c.problem("index row %x is missing", key)
		}
	}
}

// errEnough ends a check early, when its caller wants no more problems.
var errEnough = errors.New("enough problems")

// CheckRows, where a test sets it, is called at each row of each table that a check walks over.
var CheckRows func(table byte, row int)
