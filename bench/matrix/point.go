package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
)

// Point is one point of the matrix. A layer leaves fields that do not apply to it at 0.
type Point struct {
	Transport string // http or stream
	Work      string // create, drain, exchange or lifecycle
	Size      int    // bytes of a payload
	Batch     int    // jobs in a call; in a stream, outstanding jobs
	Conns     int    // connections, streams or callers, each with one call at a time
	Backlog   int    // pending jobs that exist before, and stay
	Queues    int    // queues over which all jobs are spread; 0 for a layer without queues
}

// Name returns the name of the point's sub-benchmark.
func (p Point) Name() string { return p.owner() + "/" + p.rest() }

// owner is the part of the name that points with the same backlog share.
func (p Point) owner() string {
	if p.Queues == 0 {
		return fmt.Sprintf("size=%d", p.Size)
	}
	return fmt.Sprintf("backlog=%d/queues=%d/size=%d", p.Backlog, p.Queues, p.Size)
}

func (p Point) rest() string {
	var name strings.Builder
	if p.Transport != "" {
		fmt.Fprintf(&name, "transport=%s/", p.Transport)
	}
	fmt.Fprintf(&name, "work=%s/batch=%d", p.Work, p.Batch)
	if p.Conns > 0 {
		fmt.Fprintf(&name, "/conns=%d", p.Conns)
	}
	return name.String()
}

// Queue returns the client and the type of the i-th queue.
func (p Point) Queue(i int) (client, typ string) {
	i %= p.Queues
	return fmt.Sprintf("c%d", i/100), fmt.Sprintf("t%d", i%100)
}

// MaxFillLines is the largest number of jobs in a create that fills queues.
const MaxFillLines = 1000

// Fill splits jobs into creates of equal size, and calls create with the number of each create and its number of lines.
// The caller spreads the creates over the queues by their numbers.
func (p Point) Fill(jobs int, create func(i, lines int) error) error {
	lines := MaxFillLines
	if p.Queues > 1 {
		lines = max(1, min(lines, p.Backlog/p.Queues))
	}
	for !(Point{Size: p.Size, Batch: lines}).fits() {
		lines /= 2
	}
	for i := 0; jobs > 0; i++ {
		n := min(lines, jobs)
		if err := create(i, n); err != nil {
			return err
		}
		jobs -= n
	}
	return nil
}

// maxUnderWay is how many bytes of payloads may wait to be applied before the server refuses further creates.
const maxUnderWay = 32 << 20

// fits reports whether a body and an answer can have this many jobs of this size, and whether the server accepts as many
// from all connections at once.
func (p Point) fits() bool {
	return p.Batch*(p.Size+1) <= job.MaxBodyBytes && max(1, p.Conns)*p.Batch*p.Size <= maxUnderWay
}

// A Dimension varies one field of a point.
type Dimension func(Point) []Point

func vary(field func(*Point) *int, values ...int) Dimension {
	return func(p Point) (varied []Point) {
		for _, v := range values {
			*field(&p) = v
			varied = append(varied, p)
		}
		return varied
	}
}

// Sizes varies the bytes of a payload.
func Sizes(values ...int) Dimension { return vary(func(p *Point) *int { return &p.Size }, values...) }

// Batches varies the jobs of a call.
func Batches(values ...int) Dimension {
	return vary(func(p *Point) *int { return &p.Batch }, values...)
}

// Conns varies the connections.
func Conns(values ...int) Dimension { return vary(func(p *Point) *int { return &p.Conns }, values...) }

// Backlogs varies the pending jobs that stay.
func Backlogs(values ...int) Dimension {
	return vary(func(p *Point) *int { return &p.Backlog }, values...)
}

// Queues varies the queues.
func Queues(values ...int) Dimension {
	return vary(func(p *Point) *int { return &p.Queues }, values...)
}

// Cross returns base with every combination of the values of the dimensions. It leaves out points that are longer than
// the server accepts.
func Cross(base Point, dimensions ...Dimension) []Point {
	points := []Point{base}
	for _, vary := range dimensions {
		var all []Point
		for _, p := range points {
			all = append(all, vary(p)...)
		}
		points = all
	}
	return slices.DeleteFunc(points, func(p Point) bool { return !p.fits() })
}
