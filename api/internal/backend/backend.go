// Package backend has the interface between the API and the engine.
package backend

import (
	"context"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// Engine changes the queue and reads its state. A server has an *ingest.Engine and its *query.Queries. It is an interface for
// three kinds of tests, which a faulty disk or log cannot replace. The fuzzer judges each command that a request becomes,
// thousands in a second. Tests of memory need documents of the greatest length at once. Other tests make one operation of many
// fail, or hold it at one moment. A function calls CatchUp before it reads.
type Engine interface {
	Create(ctx context.Context, c *job.Create) (applied.Made, ingest.Receipt, error)
	StartCreate(ctx context.Context, c *job.Create) (wait func() (applied.Made, ingest.Receipt, error))

	// These claims call admit with the total size of the payloads before they read them. If admit returns an error, the claim
	// fails. The payloads must not be changed. Exchange carries out the outcomes of a claim and the claim.
	ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error)
	ClaimUntil(ctx context.Context, c job.Claim, stop <-chan struct{}, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error)
	Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error)

	Complete(ctx context.Context, c job.Complete) (applied.Ended, ingest.Receipt, error)
	CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, ingest.Receipt, error)
	Tickle(ctx context.Context, t job.Tickle) (applied.Tickled, ingest.Receipt, error)
	Move(ctx context.Context, m job.Move) (applied.Moved, ingest.Receipt, error)
	MoveAll(ctx context.Context, m job.Move) (applied.Swept, ingest.Receipt, error)
	Patch(ctx context.Context, p job.Patch) (applied.Moved, ingest.Receipt, error)
	ChangeBatch(ctx context.Context, c job.ChangeBatch) (applied.BatchChanged, ingest.Receipt, error)
	Pause(ctx context.Context, p job.Pause) (applied.Paused, ingest.Receipt, error)
	DeleteQueue(ctx context.Context, d job.DeleteQueue) (applied.QueueDeleted, ingest.Receipt, error)
	OpenSession(ctx context.Context, o job.OpenSession) (document.Session, ingest.Receipt, error)
	EndSession(ctx context.Context, s job.EndSession) (ingest.Receipt, error)
	PutDocument(ctx context.Context, p job.PutDocument) (applied.DocumentChanged, ingest.Receipt, error)
	DeleteDocument(ctx context.Context, d job.DeleteDocument) (applied.DocumentChanged, ingest.Receipt, error)
	Switch(ctx context.Context, s job.Switch) (applied.Switched, ingest.Receipt, error)
	RaiseLevel(ctx context.Context) (level int, receipt ingest.Receipt, err error)
	Snapshot() (*ingest.Snapshot, error)

	// Now is the journal's time, which all times of jobs use. AcceptTime sets it to the wall clock if it is earlier, and returns
	// how far it is then ahead of the wall clock.
	Now() int64 // unix ms
	ClockOffset() time.Duration
	AcceptTime(ctx context.Context) (offsetMs int64, err error)

	// These know which runners are alive. They wait for nothing but the leader of a cluster.
	Heartbeat(ctx context.Context, id string, info registry.Info, takeover bool) (aliveSince int64, every time.Duration, err error)
	Goodbye(ctx context.Context, id, instance string) error
	Registered(ctx context.Context, id string) (known registry.Runner, ok bool, err error)
	AllRegistered(ctx context.Context, after string, limit int) (list []registry.Runner, more bool, err error)
	Silence(runner string) uint64
	WhenLost(end func(runner string) (returned <-chan struct{}))

	// These describe and change the cluster, if the server is a node of one.
	Cluster() (s job.ClusterStatus, ok bool)
	DescribeCluster(ctx context.Context) (job.ClusterStatus, error)
	RemoveNode(ctx context.Context, node string) error
	TransferLeadership(ctx context.Context, node string) error

	// These report on the engine, and never wait.
	Stats() ingest.Stats
	Ready() error
	QueueFigures() []store.QueueFigures
	QueueRows() int
	CommandTimes() map[string]ingest.CommandTimes
	Level() (level, newest int)

	// CatchUp waits until the state includes minSeq and all commands that were synced when it was called.
	CatchUp(ctx context.Context, minSeq uint64) error

	// JobWithin reads a job only if it takes at most room bytes in memory; otherwise fits is false.
	JobWithin(id job.ID, room int64) (doc job.Job, fits bool, err error)
	AwaitEnd(id job.ID) (*store.JobEnd, error)
	List(f query.Filter) (jobs []job.Job, next query.JobPlace, err error)

	Batch(id job.ID) (document.Batch, error)
	BatchMetadata(id job.ID) ([]byte, error)
	LineOf(id job.ID) (batch job.ID, line int64, err error)
	Batches(f query.BatchFilter) (docs []document.Batch, next query.BatchPlace, err error)
	AwaitBatch(id job.ID) (*store.JobEnd, error)
	Results(id job.ID, from int64, limit int, room int64) (query.Results, error)
	Queue(client, typ string) (document.Queue, error)
	Queues(s *job.Scope, client, afterClient, afterType string, limit int) (queues []document.Queue, more bool, err error)
	WaitingTypes(s *job.Scope, client, afterType string, limit int) (types []document.WaitingType, more bool, err error)
	Runners(after string, limit int) (runners []document.Runner, more bool, err error)
	Runner(id string) (document.Runner, error)
	ClaimDocument(id job.ID, parts query.Parts) (document.Claim, []job.Job, error)
	SessionDocument(id job.ID) (document.Session, error)
	Key(name string) *job.Key
	KeysKnown() bool
	KeysRequired() bool
	SharingRunners(*job.Key) string
	OwnersOfKeys() int
	Login(name []byte) *job.Login
	LoginsOf(by string, now int64) (own, ended []*job.Login)
	ClientUse(client string) (use job.Quota, err error)
	HandlerFor(client, typ string) (h document.Named, ok bool)
	Document(kind job.DocumentKind, client, name string, version int) (d document.Named, text []byte, err error)
	DocumentByID(kind job.DocumentKind, id job.ID) (d document.Named, text []byte, err error)
	DocumentHistory(kind job.DocumentKind, client, name string) ([]document.Named, error)
	Documents(s *job.Scope, kind job.DocumentKind, afterName, afterClient string, limit int) (list []document.Named, more bool, err error)
	Sweep(id job.ID) (document.Sweep, error)
	Sweeps() ([]document.Sweep, error)
	Audit(f query.AuditFilter) ([]document.Audited, error)

	// These report whether a key with a scope is for something. What does not exist is in no scope.
	JobInScope(s *job.Scope, id job.ID) (bool, error)
	BatchInScope(s *job.Scope, id job.ID) (bool, error)
	ClaimInScope(s *job.Scope, id job.ID) (bool, error)
	SweepInScope(s *job.Scope, doc *document.Sweep) (bool, error)
	SessionInScope(by *job.Actor, id job.ID) (in, there bool, err error)
}
