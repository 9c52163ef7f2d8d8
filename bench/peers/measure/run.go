package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

// Run compares drivers.
type Run struct {
	Drivers []Driver
	Rounds  int
	Turn    time.Duration // how long a turn should take
	Dir     string        // where the servers' directories are created; each is removed after its turn
	// Progress is called with a line for each turn.
	Progress func(string)
}

const (
	mostJobs  = 4_000_000 // of one turn, to bound memory and disk of every system
	turnLimit = 2 * time.Minute
)

// cell is a driver and a work of a block, with the size of its turns.
type cell struct {
	driver Driver
	work   Work
	jobs   int
	result *Result
}

// Block measures a block: it calibrates each driver and work, and then runs the rounds. If a driver fails, Block leaves
// it out of the rest of the block, and its result has the reason. The error is the context's error.
func (r *Run) Block(ctx context.Context, b Block) ([]*Result, error) {
	cells := r.cells(b)
	var results []*Result
	for _, c := range cells {
		c.result = &Result{Block: b.Name, Work: c.work.Name, Driver: c.driver.Name()}
		results = append(results, c.result)
		if err := r.calibrate(ctx, c); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			c.fail(r, err)
		}
	}
	for round := range r.Rounds {
		// Every second round has the opposite order, so that no driver is always first.
		order := slices.Clone(cells)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, c := range order {
			if c.result.Error != "" {
				continue
			}
			measured, err := r.turn(ctx, c, round)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				c.fail(r, err)
				continue
			}
			c.result.Turns = append(c.result.Turns, measured)
			r.Progress(fmt.Sprintf("%-24s %-14s round %d: %10.0f jobs/s  (%d jobs in %.2f s)",
				c.work.Name, c.driver.Name(), round+1, measured.Rate(), measured.Jobs, measured.Seconds))
		}
	}
	sortByWork(results, b)
	return results, nil
}

// cells returns the works of a block, with the works of each driver next to each other. The clients of Daybook and the
// peer with which most targets compare them are the first drivers, so their turns are close together.
func (r *Run) cells(b Block) (cells []*cell) {
	for _, d := range r.Drivers {
		for _, w := range b.Works {
			if d.Does(w) {
				cells = append(cells, &cell{driver: d, work: w})
			}
		}
		for _, w := range b.Also[d.Name()] {
			cells = append(cells, &cell{driver: d, work: w})
		}
	}
	return cells
}

// sortByWork puts the results into the order of the block's works, and works of Block.Also at the end.
func sortByWork(results []*Result, b Block) {
	place := func(r *Result) int {
		for i, w := range b.Works {
			if w.Name == r.Work {
				return i
			}
		}
		return len(b.Works)
	}
	slices.SortStableFunc(results, func(x, y *Result) int { return place(x) - place(y) })
}

func (c *cell) fail(r *Run, err error) {
	c.result.Error = err.Error()
	r.Progress(fmt.Sprintf("%-24s %-14s failed: %v", c.work.Name, c.driver.Name(), err))
}

// serve starts the driver's server, calls use, and ends the server and removes its directory, whatever happens.
func (r *Run) serve(ctx context.Context, d Driver, use func(context.Context, Session) error) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, turnLimit, fmt.Errorf("the turn took longer than %v", turnLimit))
	defer cancel()
	dir, err := os.MkdirTemp(r.Dir, d.Name()+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := d.Start(ctx, dir)
	if err != nil {
		return fmt.Errorf("start %s: %w", d.Name(), err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return use(ctx, s)
}

// measureOn fills the queue as far as the work needs it, and does the jobs.
func measureOn(ctx context.Context, s Session, t *Turn) error {
	t.server = s.Pid()
	switch t.Work.Kind {
	case Drain, Exchange, Worker:
		if err := s.Fill(ctx, t.Jobs); err != nil {
			return fmt.Errorf("fill the queue with %d jobs: %w", t.Jobs, err)
		}
	}
	runtime.GC() // the garbage of the preparations is not part of the turn
	return run(ctx, s, t)
}

// Do does some jobs of a work on a session, for tests of drivers.
func Do(ctx context.Context, s Session, w Work, jobs int) (TurnResult, error) {
	t := &Turn{Work: w, Jobs: jobs}
	if err := measureOn(ctx, s, t); err != nil {
		return TurnResult{}, err
	}
	return t.result(0)
}

// backlog is the number of jobs that wait while a work of kind Both runs.
const backlog = 20_000

// prepare creates the data that a work needs in addition to its jobs.
func prepare(ctx context.Context, s Session, w Work) error {
	if w.Kind != Both {
		return nil
	}
	return s.Fill(ctx, backlog)
}

// fewestJobs is the least number of jobs in a turn, so that every caller makes a few calls, or a worker a few claims.
func fewestJobs(s Session, w Work) int {
	if w.Kind == Worker {
		return 4 * max(w.Callers, w.Batch)
	}
	batch := w.Batch
	if w.Kind == Both {
		batch = createBatch
	}
	if limited, ok := s.(Limited); ok {
		batch = min(batch, limited.MostJobs())
	}
	return 2 * w.Callers * batch
}

// calibrate finds how many jobs a turn needs to take about as long as r.Turn.
func (r *Run) calibrate(ctx context.Context, c *cell) error {
	return r.serve(ctx, c.driver, func(ctx context.Context, s Session) error {
		if err := prepare(ctx, s, c.work); err != nil {
			return err
		}
		for jobs := max(500, fewestJobs(s, c.work)/4); ; jobs = min(jobs*8, mostJobs) {
			t := &Turn{Work: c.work, Jobs: jobs}
			if err := measureOn(ctx, s, t); err != nil {
				return err
			}
			if t.took > r.Turn/5 || jobs == mostJobs {
				rate := float64(jobs) / t.took.Seconds()
				c.jobs = min(max(int(rate*r.Turn.Seconds()), fewestJobs(s, c.work)), mostJobs)
				return nil
			}
		}
	})
}

// turn measures a cell once. A tenth of its jobs warm up the server and the connections of both sides.
func (r *Run) turn(ctx context.Context, c *cell, round int) (measured TurnResult, err error) {
	err = r.serve(ctx, c.driver, func(ctx context.Context, s Session) error {
		if err := prepare(ctx, s, c.work); err != nil {
			return err
		}
		for _, t := range []*Turn{{Work: c.work, Jobs: max(c.jobs/10, 1)}, {Work: c.work, Jobs: c.jobs}} {
			if err := measureOn(ctx, s, t); err != nil {
				return err
			}
			if measured, err = t.result(round); err != nil {
				return err
			}
		}
		return nil
	})
	return measured, err
}
