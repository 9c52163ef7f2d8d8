package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Sweep is an operation on the jobs of a batch or queue, which may be millions. The requesting command carries out the
// first step. Ticks carry out the later steps, and other commands are applied in between.
type Sweep struct {
	job.Sweep
	Batch    job.ID // the batch whose jobs it changes; zero: it is for a queue
	BatchSeq uint64
	QueueID  uint32
	Name     QueueName // of the queue, which may have been deleted since
	Owner    string    // the owner of everything of who requested it; "": nobody's quota counts it
	// The position of the next step. In a queue, turn is the index of the status in job.Sweep.Takes.
	Turn int
	// OfParts: the batch is a submission, and NextBatch is the number of the next line in it.
	OfParts   bool
	NextBatch uint64
	NextLine  uint32

	Moved, Skipped int64
	FinishedAt     int64 // unix ms; 0: in progress
}

func (w *Sweep) Id() job.ID { return job.NewID(w.At, w.Seq, 0) }

// Covers reports whether the lines of a part belonged to the sweep's batch or queue when the sweep was requested.
func (w *Sweep) Covers(p Part) bool {
	b := p.B
	if w.Batch.IsZero() {
		return p.Of.QueueID == w.QueueID && b.Seq < w.Seq
	}
	return b.Seq == w.BatchSeq && !w.OfParts || w.OfParts && b.Submission == w.BatchSeq && b.Seq < w.Seq
}

func (w *Sweep) Encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Int(w.At)
	e.Uint(uint64(w.Op))
	e.Bytes(w.Batch[:])
	e.Uint(w.BatchSeq)
	e.Uint(uint64(w.QueueID))
	e.Text(w.Name.Client)
	e.Text(w.Name.Typ)
	e.Text(w.Owner)
	e.Uint(uint64(w.Status))
	e.Uint(uint64(w.Turn))
	e.Uint(w.NextBatch)
	e.Uint(uint64(w.NextLine))
	e.Int(w.Moved)
	e.Int(w.Skipped)
	e.Int(w.FinishedAt)
	if w.OfParts {
		e.Bool(true)
	}
	return e
}

func DecodeSweep(seq uint64, value []byte) *Sweep {
	d := lsm.Decoder(value)
	w := &Sweep{Sweep: job.Sweep{Now: job.Now{Seq: seq, At: d.Int()}, Op: job.Op(d.Uint())}}
	w.Batch, w.BatchSeq = decodeID(&d), d.Uint()
	w.QueueID, w.Name = uint32(d.Uint()), QueueName{d.Text(), d.Text()}
	w.Owner = d.Text()
	w.Status, w.Turn = job.Status(d.Uint()), int(d.Uint())
	w.NextBatch, w.NextLine = d.Uint(), uint32(d.Uint())
	w.Moved, w.Skipped, w.FinishedAt = d.Int(), d.Int(), d.Int()
	w.OfParts = len(d) > 0 && d.Bool()
	return w
}

func (w *Sweep) Document() document.Sweep {
	return document.Sweep{
		ID: w.Id(), Op: w.Op, Batch: w.Batch, Client: w.Name.Client, Type: w.Name.Typ, Status: w.Status, Moved: w.Moved, Skipped: w.Skipped, CreatedAt: w.At, FinishedAt: w.FinishedAt,
	}
}
