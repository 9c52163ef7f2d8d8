package job

import (
	"fmt"
	"math"
)

// Submission describes a batch as a whole. A batch with a Submission has a status, which the store maintains, and several
// creates may add its jobs.
type Submission struct {
	Name      string // 0 … MaxBatchNameBytes bytes; need not be unique
	Meta      BatchMeta
	OnFailure OnFailure
	ChunkSize int64 // how many of the producer's operations a job has; 0: not given
	// The trace context of the producer, in the forms of W3C Trace Context and W3C Baggage.
	Traceparent, Tracestate, Baggage string
	Metadata                         []byte // 0 … MaxBatchMetadataBytes bytes, opaque to the server
	Open                             bool   // other creates may add jobs, until a command closes the batch
	Paused                           bool   // no job is handed out until a command resumes the batch
}

// OnFailure decides about the other jobs of a batch when one job fails.
type OnFailure uint8

// Continue lets the other jobs run. CancelRest ends the batch as failed, and cancels all jobs that have not ended.
const (
	Continue OnFailure = iota
	CancelRest
)

var onFailureNames = [...]string{"continue", "cancel_rest"}

func (o OnFailure) String() string { return onFailureNames[o] }

// ParseOnFailure is the inverse of String.
func ParseOnFailure(text string) (OnFailure, error) {
	for i, name := range onFailureNames {
		if name == text {
			return OnFailure(i), nil
		}
	}
	return Continue, fmt.Errorf("on_failure %q is not one of continue, cancel_rest", text)
}

// BatchStatus is the stage of a batch.
type BatchStatus uint8

// A batch is in progress while it is open or has jobs that have not ended. It can be created paused, and is then paused
// until it is resumed. It is completed when all of its jobs have completed, failed when one of them has failed for good,
// and cancelled when none failed and one was cancelled. These last three statuses never change.
const (
	BatchInProgress BatchStatus = iota + 1
	BatchPaused
	BatchCompleted
	BatchFailed
	BatchCancelled

	NumBatchStatus = int(BatchCancelled) + 1
)

var batchStatusNames = [NumBatchStatus]string{"none", "in_progress", "paused", "completed", "failed", "cancelled"}

func (s BatchStatus) String() string { return batchStatusNames[s] }

// ParseBatchStatus is the inverse of String.
func ParseBatchStatus(text string) (BatchStatus, error) {
	for i, name := range batchStatusNames {
		if i > 0 && name == text {
			return BatchStatus(i), nil
		}
	}
	return 0, fmt.Errorf("status %q is not one of in_progress, paused, completed, failed, cancelled", text)
}

// Ended reports whether the status is completed, failed or cancelled.
func (s BatchStatus) Ended() bool { return s >= BatchCompleted }

// BatchStatusOf returns the status of a closed batch whose jobs have all ended, from the numbers of failed and cancelled
// jobs. The remaining jobs completed.
func BatchStatusOf(failed, cancelled int64) BatchStatus {
	switch {
	case failed > 0:
		return BatchFailed
	case cancelled > 0:
		return BatchCancelled
	}
	return BatchCompleted
}

// Snowflake returns a batch id of 63 bits that counts up: 41 bits of unix ms, and the low 22 bits of the seq of its
// create. The layout lasts until September 2039.
func Snowflake(at int64, seq uint64) uint64 {
	return uint64(at)<<22&math.MaxInt64 | seq&(1<<22-1)
}

// submission writes the fields of a submission, without its metadata.
func (f *fields) submission(s *Submission) {
	f.text("submission", "true")
	f.text("name", s.Name)
	if s.Meta != "" { // it is in its text form already
		f.key("batch_meta")
		*f = append(*f, s.Meta...)
	}
	if s.OnFailure != Continue {
		f.text("on_failure", s.OnFailure.String())
	}
	f.int("chunk_size", s.ChunkSize)
	f.text("batch_traceparent", s.Traceparent)
	f.text("batch_tracestate", s.Tracestate)
	f.text("batch_baggage", s.Baggage)
	if s.Open {
		f.text("open", "true")
	}
	if s.Paused {
		f.text("paused", "true")
	}
	f.int("metadata_bytes", int64(len(s.Metadata)))
}

// submission reads one field of a submission, and reports whether key is the name of such a field.
func (r *fieldReader) submission(s *Submission, metadataBytes *int, key, raw string) bool {
	var err error
	switch key {
	case "name":
		s.Name = r.text(raw)
		err = CheckBatchName(s.Name)
	case "batch_meta":
		s.Meta, err = ParseBatchMeta(raw)
	case "on_failure":
		if s.OnFailure, err = ParseOnFailure(raw); err == nil && s.OnFailure == Continue {
			err = fmt.Errorf("on_failure=continue is left out")
		}
	case "chunk_size":
		s.ChunkSize = r.int(key, raw, math.MinInt64, math.MaxInt64)
	case "batch_traceparent":
		s.Traceparent = r.bounded(key, raw, MaxTraceBytes)
	case "batch_tracestate":
		s.Tracestate = r.bounded(key, raw, MaxTraceBytes)
	case "batch_baggage":
		s.Baggage = r.bounded(key, raw, MaxBaggageBytes)
	case "open":
		s.Open = r.only(key, raw, "true")
	case "paused":
		s.Paused = r.only(key, raw, "true")
	case "metadata_bytes":
		*metadataBytes = int(r.int(key, raw, 1, MaxBatchMetadataBytes))
	default:
		return false
	}
	if err != nil {
		r.fail(err)
	}
	return true
}

// only reads a field that allows a single value.
func (r *fieldReader) only(key, raw, value string) bool {
	if raw != value {
		r.fail(fmt.Errorf("%s is %q, and can only be %s", key, raw, value))
	}
	return raw == value
}

// CheckBatchName returns an error unless name has at most MaxBatchNameBytes bytes of UTF-8 without control characters. ""
// means that the batch is without a name.
func CheckBatchName(name string) error {
	if err := CheckText("name", name, 0, MaxBatchNameBytes); err != nil {
		return err
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] == 0x7f {
			return fmt.Errorf("name must have no control characters (byte %d is %#x)", i, name[i])
		}
	}
	return nil
}

// BatchOp is the operation of a ChangeBatch.
type BatchOp uint8

// CloseBatch closes an open batch, so that no more jobs can be added. ResumeBatch lets the jobs of a paused batch run.
const (
	CloseBatch BatchOp = iota + 1
	ResumeBatch
)

var batchOpNames = [...]string{"", "closebatch", "resumebatch"}

// ChangeBatch closes or resumes a batch. It has no effect on a batch that is already closed, or not paused.
type ChangeBatch struct {
	Op    BatchOp
	Batch ID
}

func (c ChangeBatch) Verb() string { return batchOpNames[c.Op] }

func (c ChangeBatch) Encode() (fieldText, body []byte) {
	var f fields
	f.id("batch", c.Batch)
	return f, nil
}

func decodeChangeBatch(r *fieldReader, op BatchOp) Command {
	c := ChangeBatch{Op: op}
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		if key != "batch" {
			r.unknown(key)
			continue
		}
		c.Batch = r.id(raw)
	}
	if c.Batch.IsZero() {
		r.fail(fmt.Errorf("batch is missing"))
	}
	return c
}
