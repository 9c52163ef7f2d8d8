package measure

import "slices"

import "fmt"

// PayloadBytes is the length of every payload.
const PayloadBytes = 100

// Kind is the kind of calls that the callers of a work make.
type Kind string

const (
	Create    Kind = "create"    // create jobs
	Drain     Kind = "drain"     // claim waiting jobs, and complete them in a second call
	Exchange  Kind = "exchange"  // complete the jobs of the last claim and claim more, in one round trip
	Both      Kind = "both"      // create a thousand jobs, then claim and complete as many
	Lifecycle Kind = "lifecycle" // create one job, claim one, complete it: one call each
	Worker    Kind = "worker"    // the system's own worker, with a handler that does nothing
)

// Work is one line of the comparison.
type Work struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Kind  Kind   `json:"kind"`
	// Callers is the number of callers, each with one request at a time. Each has a separate connection, as far as this
	// is usual for the client. For a worker it is the number of handlers.
	Callers int `json:"callers"`
	// Batch is how many jobs one request creates or claims. For a worker it is the most that one claim may bring, if the
	// system lets its user choose; 0 means the system's default.
	Batch int `json:"batch"`
}

// Connections bounds the connections of a client.
const Connections = 64

// createBatch is how many jobs a request of Both creates.
const createBatch = 1000

// The works.
var (
	CreateBulk   = Work{"create-bulk", "create 1000 a request, 16 connections", Create, 16, 1000}
	CreateOne    = Work{"create-one", "create one a request, 64 callers", Create, 64, 1}
	DrainBulk    = Work{"drain-bulk", "claim 100, then complete 100, 16 connections", Drain, 16, 100}
	ExchangeBulk = Work{"exchange-bulk", "complete 100 and claim 100 in one round trip, 16 connections", Exchange, 16, 100}
	ExchangeOne  = Work{"exchange-one", "complete one and claim one in one round trip, 64 connections", Exchange, 64, 1}
	BothBulk     = Work{"both-bulk", "create 1000, then 10 × claim and complete 100, 16 connections", Both, 16, 100}
	LifecycleOne = Work{"lifecycle-one", "create, claim and complete one job, one call each, 64 callers", Lifecycle, 64, 1}
	// LifecycleMany is for clients that have many outstanding requests on a connection.
	LifecycleMany = Work{"lifecycle-many", "create, claim and complete one job, one call each, 64 connections with 16 callers each", Lifecycle, 1024, 1}
	Worker1       = worker(1, 100)
	Worker16      = worker(16, 100)
	Worker64      = worker(64, 100)
	Worker2000    = worker(2000, 100) // as many handlers as River's own benchmark has
	Worker64By1   = worker(64, 1)
	Worker64Own   = worker(64, 0)
)

func worker(handlers, batch int) Work {
	w := Work{Kind: Worker, Callers: handlers, Batch: batch}
	w.Name, w.Title = fmt.Sprintf("worker-%d", handlers), fmt.Sprintf("worker, %d handlers", handlers)
	if handlers == 1 {
		w.Title = "worker, 1 handler"
	}
	switch batch {
	case 0:
		w.Name, w.Title = w.Name+"-default", w.Title+", its default batch"
	default:
		w.Name, w.Title = fmt.Sprintf("%s-batch-%d", w.Name, batch), fmt.Sprintf("%s, batch %d", w.Title, batch)
	}
	return w
}

// Block is a set of works whose turns alternate, so that they can be compared.
type Block struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Works []Work `json:"works"`
	// Also has works that only the drivers in its keys do, as references for the other drivers.
	Also map[string][]Work `json:"also,omitempty"`
}

// Works returns the works of all blocks. Works that only create come last, since all other works end with as many jobs as
// they began with.
func Works() (works []Work) {
	for _, b := range Blocks() {
		works = append(works, b.Works...)
	}
	creates := func(w Work) int {
		if w.Kind == Create {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(works, func(x, y Work) int { return creates(x) - creates(y) })
	return works
}

// Blocks returns all blocks, in the order in which they run.
func Blocks() []Block {
	return []Block{
		{Name: "create-bulk", Title: "Creating in bulk", Works: []Work{CreateBulk}},
		{Name: "drain-bulk", Title: "Claiming and completing in bulk", Works: []Work{DrainBulk, ExchangeBulk}},
		{Name: "both-bulk", Title: "Both at once", Works: []Work{BothBulk}},
		{Name: "create-one", Title: "Creating one job a call", Works: []Work{CreateOne}},
		{Name: "lifecycle-one", Title: "One job at a time", Works: []Work{LifecycleOne, LifecycleMany, ExchangeOne}},
		{Name: "worker", Title: "Workers", Works: []Work{Worker1, Worker16, Worker64},
			Also: map[string][]Work{"redis": {DrainBulk}, "river": {Worker2000}}},
		{Name: "worker-one", Title: "Workers that claim one job, and with their defaults", Works: []Work{Worker64By1, Worker64Own},
			Also: map[string][]Work{"redis": {LifecycleOne}}},
	}
}
