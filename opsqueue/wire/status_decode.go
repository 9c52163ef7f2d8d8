package wire

import "time"

// DecodeSubmissionStatus decodes the answer to a request for a status. It returns nil for null, and ErrMalformed or
// ErrShape if the answer is not valid.
func DecodeSubmissionStatus(body []byte) (status *SubmissionStatus, err error) {
	err = decodeJSON(body, func(r jsonReader) error {
		if r.null() {
			return nil
		}
		const of = "SubmissionStatus"
		status = &SubmissionStatus{}
		return r.variant(of, func(name string) (err error) {
			if name == "InProgress" {
				status.InProgress, err = r.submission()
				return err
			}
			var ended SubmissionNotCancellable
			err = r.ended(of, name, &ended)
			status.Completed, status.Failed, status.Cancelled = ended.Completed, ended.Failed, ended.Cancelled
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return status, nil
}

// DecodeSubmissionNotCancellable decodes the answer of status 409 to a cancel. It returns ErrMalformed or ErrShape if the
// answer is not valid.
func DecodeSubmissionNotCancellable(body []byte) (out SubmissionNotCancellable, err error) {
	err = decodeJSON(body, func(r jsonReader) error {
		const of = "SubmissionNotCancellable"
		return r.variant(of, func(name string) error { return r.ended(of, name, &out) })
	})
	if err != nil {
		return SubmissionNotCancellable{}, err
	}
	return out, nil
}

func (r jsonReader) ended(of, variant string, out *SubmissionNotCancellable) (err error) {
	switch variant {
	case "Completed":
		out.Completed, err = r.completed()
	case "Failed":
		out.Failed = &FailedWithChunk{}
		err = r.pair("Failed",
			func() error { return r.failed(&out.Failed.Submission) },
			func() error { return r.chunkFailed(&out.Failed.Chunk) })
	case "Cancelled":
		out.Cancelled, err = r.cancelled()
	default:
		err = r.unknownVariant(of, variant)
	}
	return err
}

// sharedFields points to the fields that all four kinds of submissions share, as targets for decoding.
type sharedFields struct {
	id          *SubmissionID
	prefix      **string
	chunksTotal *int64
	metadata    *[]byte
	strategic   *Metadata
	chunkSize   *int64  // nil for a SubmissionCancelled
	carrier     *string // nil for a SubmissionCancelled
	endedAt     *time.Time
}

func (r jsonReader) shared(field string, to sharedFields) (err error) {
	switch field {
	case "id":
		*to.id, err = r.submissionID(field)
	case "prefix":
		*to.prefix, err = r.nullableText(field)
	case "chunks_total":
		*to.chunksTotal, err = r.uint63(field)
	case "metadata":
		*to.metadata, err = r.bytes(field)
	case "strategic_metadata":
		*to.strategic, err = r.metadata(field)
	case "chunk_size":
		*to.chunkSize, err = r.int(field)
	case "otel_trace_carrier":
		*to.carrier, err = r.text(field)
	case "completed_at", "failed_at", "cancelled_at":
		*to.endedAt, err = r.time(field)
	default:
		panic("wire: field " + field + " is in a list of names and is not decoded")
	}
	return err
}

func (r jsonReader) submission() (*Submission, error) {
	s := &Submission{}
	to := sharedFields{&s.ID, &s.Prefix, &s.ChunksTotal, &s.Metadata, &s.StrategicMetadata, &s.ChunkSize, &s.OtelTraceCarrier, nil}
	return s, r.object(&submissionFields, func(field string) (err error) {
		if field == "chunks_done" {
			s.ChunksDone, err = r.uint63(field)
			return err
		}
		return r.shared(field, to)
	})
}

func (r jsonReader) completed() (*SubmissionCompleted, error) {
	s := &SubmissionCompleted{}
	to := sharedFields{&s.ID, &s.Prefix, &s.ChunksTotal, &s.Metadata, &s.StrategicMetadata, &s.ChunkSize, &s.OtelTraceCarrier, &s.CompletedAt}
	return s, r.object(&completedFields, func(field string) error { return r.shared(field, to) })
}

func (r jsonReader) failed(s *SubmissionFailed) error {
	to := sharedFields{&s.ID, &s.Prefix, &s.ChunksTotal, &s.Metadata, &s.StrategicMetadata, &s.ChunkSize, &s.OtelTraceCarrier, &s.FailedAt}
	return r.object(&failedFields, func(field string) (err error) {
		switch field {
		case "chunks_done":
			if !r.null() {
				s.ChunksDone = new(int64)
				*s.ChunksDone, err = r.uint63(field)
			}
			return err
		case "failed_chunk_id":
			s.FailedChunkIndex, err = r.uint63(field)
			return err
		}
		return r.shared(field, to)
	})
}

func (r jsonReader) cancelled() (*SubmissionCancelled, error) {
	s := &SubmissionCancelled{}
	to := sharedFields{&s.ID, &s.Prefix, &s.ChunksTotal, &s.Metadata, &s.StrategicMetadata, nil, nil, &s.CancelledAt}
	return s, r.object(&cancelledFields, func(field string) (err error) {
		if field == "chunks_done" {
			s.ChunksDone, err = r.uint63(field)
			return err
		}
		return r.shared(field, to)
	})
}

func (r jsonReader) chunkFailed(c *ChunkFailed) error {
	return r.object(&chunkFailedFields, func(field string) (err error) {
		switch field {
		case "submission_id":
			c.ID.SubmissionID, err = r.submissionID(field)
		case "chunk_index":
			c.ID.Index, err = r.uint63(field)
		case "input_content":
			c.InputContent, err = r.bytes(field)
		case "failure":
			c.Failure, err = r.text(field)
		case "failed_at":
			c.FailedAt, err = r.time(field)
		}
		return err
	})
}
