package store

import "github.com/daybookq/daybook/job"

// sweep is an operation on the jobs of a batch or queue, which may be millions. The command that requests it carries out the first step.
// Ticks carry out the others, and other commands are applied in between.
type sweep struct {
	job.Sweep
	batch    job.ID // the batch that it goes through; zero: it goes through a queue
	batchSeq uint64
	queue    uint32
	name     queueName // of the queue, which may have been deleted since
	// The next step begins here. In a queue, turn is the index of the status in job.Sweep.Takes.
	turn      int
	nextBatch uint64
	nextLine  uint32

	moved, skipped int64
	finishedAt     int64 // unix ms; 0: it is under way
}

func (w *sweep) id() job.ID { return job.NewID(w.At, w.Seq, 0) }

// covers reports whether a line existed, in the batch or queue of the sweep, when the sweep was requested.
func (w *sweep) covers(b *batch, line uint32) bool {
	if w.batch.IsZero() {
		return b.group(line).queue == w.queue && b.seq < w.Seq
	}
	return b.seq == w.batchSeq
}

func (w *sweep) encode() []byte {
	e := make(encoder, 0, 64)
	e.int(w.At)
	e.uint(uint64(w.Op))
	e.bytes(w.batch[:])
	e.uint(w.batchSeq)
	e.uint(uint64(w.queue))
	e.text(w.name.client)
	e.text(w.name.typ)
	e.uint(uint64(w.Status))
	e.uint(uint64(w.turn))
	e.uint(w.nextBatch)
	e.uint(uint64(w.nextLine))
	e.int(w.moved)
	e.int(w.skipped)
	e.int(w.finishedAt)
	return e
}

func decodeSweep(seq uint64, value []byte) *sweep {
	d := decoder(value)
	w := &sweep{Sweep: job.Sweep{Now: job.Now{Seq: seq, At: d.int()}, Op: job.Op(d.uint())}}
	w.batch, w.batchSeq = decodeID(&d), d.uint()
	w.queue, w.name = uint32(d.uint()), queueName{d.text(), d.text()}
	w.Status, w.turn = job.Status(d.uint()), int(d.uint())
	w.nextBatch, w.nextLine = d.uint(), uint32(d.uint())
	w.moved, w.skipped, w.finishedAt = d.int(), d.int(), d.int()
	return w
}

func (w *sweep) document() Sweep {
	return Sweep{
		ID: w.id(), Op: w.Op, Batch: w.batch, Client: w.name.client, Type: w.name.typ, Status: w.Status, Moved: w.moved, Skipped: w.skipped, CreatedAt: w.At, FinishedAt: w.finishedAt,
	}
}
