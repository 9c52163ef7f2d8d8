package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// sweep is an operation on the jobs of a batch or queue, which may be millions. The requesting command carries out the
// first step. Ticks carry out the later steps, and other commands are applied in between.
type sweep struct {
	job.Sweep
	batch    job.ID // the batch whose jobs it changes; zero: it is for a queue
	batchSeq uint64
	queueID  uint32
	name     queueName // of the queue, which may have been deleted since
	// The position of the next step. In a queue, turn is the index of the status in job.Sweep.Takes.
	turn int
	// ofParts: the batch is a submission, and nextBatch is the number of the next line in it.
	ofParts   bool
	nextBatch uint64
	nextLine  uint32

	moved, skipped int64
	finishedAt     int64 // unix ms; 0: in progress
}

func (w *sweep) id() job.ID { return job.NewID(w.At, w.Seq, 0) }

// covers reports whether the lines of a part belonged to the sweep's batch or queue when the sweep was requested.
func (w *sweep) covers(p part) bool {
	b := p.b
	if w.batch.IsZero() {
		return p.of.queueID == w.queueID && b.seq < w.Seq
	}
	return b.seq == w.batchSeq && !w.ofParts || w.ofParts && b.submission == w.batchSeq && b.seq < w.Seq
}

func (w *sweep) encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Int(w.At)
	e.Uint(uint64(w.Op))
	e.Bytes(w.batch[:])
	e.Uint(w.batchSeq)
	e.Uint(uint64(w.queueID))
	e.Text(w.name.client)
	e.Text(w.name.typ)
	e.Uint(uint64(w.Status))
	e.Uint(uint64(w.turn))
	e.Uint(w.nextBatch)
	e.Uint(uint64(w.nextLine))
	e.Int(w.moved)
	e.Int(w.skipped)
	e.Int(w.finishedAt)
	if w.ofParts {
		e.Bool(true)
	}
	return e
}

func decodeSweep(seq uint64, value []byte) *sweep {
	d := lsm.Decoder(value)
	w := &sweep{Sweep: job.Sweep{Now: job.Now{Seq: seq, At: d.Int()}, Op: job.Op(d.Uint())}}
	w.batch, w.batchSeq = decodeID(&d), d.Uint()
	w.queueID, w.name = uint32(d.Uint()), queueName{d.Text(), d.Text()}
	w.Status, w.turn = job.Status(d.Uint()), int(d.Uint())
	w.nextBatch, w.nextLine = d.Uint(), uint32(d.Uint())
	w.moved, w.skipped, w.finishedAt = d.Int(), d.Int(), d.Int()
	w.ofParts = len(d) > 0 && d.Bool()
	return w
}

func (w *sweep) document() Sweep {
	return Sweep{
		ID: w.id(), Op: w.Op, Batch: w.batch, Client: w.name.client, Type: w.name.typ, Status: w.Status, Moved: w.moved, Skipped: w.skipped, CreatedAt: w.At, FinishedAt: w.finishedAt,
	}
}
