package wire

// This file encodes submissions and their statuses as JSON.

var (
	completedFields = fields{
		"SubmissionCompleted",
		[]string{"id", "chunks_total", "chunk_size", "otel_trace_carrier", "completed_at", "prefix", "metadata", "strategic_metadata"}, 5,
	}
	failedFields = fields{
		"SubmissionFailed",
		[]string{
			"id", "chunks_total", "chunk_size", "otel_trace_carrier", "failed_at", "failed_chunk_id",
			"chunks_done", "prefix", "metadata", "strategic_metadata",
		}, 6,
	}
	cancelledFields = fields{
		"SubmissionCancelled",
		[]string{"id", "chunks_total", "chunks_done", "cancelled_at", "prefix", "metadata", "strategic_metadata"}, 4,
	}
	chunkFailedFields = fields{
		"ChunkFailed",
		[]string{"submission_id", "chunk_index", "failure", "failed_at", "input_content"}, 4,
	}
)

// AppendJSON appends the status, or null if s is nil, which is the answer for an unknown submission. It panics if no
// field of s is set.
func (s *SubmissionStatus) AppendJSON(b []byte) []byte {
	switch {
	case s == nil:
		return append(b, "null"...)
	case s.InProgress != nil:
		b = append(b, `{"InProgress":`...)
		return append(s.InProgress.appendJSON(b), '}')
	}
	return appendEnded(b, s.Completed, s.Failed, s.Cancelled)
}

// AppendJSON appends the answer of status 409 to a cancel. It panics if no field of s is set.
func (s *SubmissionNotCancellable) AppendJSON(b []byte) []byte {
	return appendEnded(b, s.Completed, s.Failed, s.Cancelled)
}

func appendEnded(b []byte, completed *SubmissionCompleted, failed *FailedWithChunk, cancelled *SubmissionCancelled) []byte {
	switch {
	case completed != nil:
		b = append(b, `{"Completed":`...)
		b = completed.appendJSON(b)
	case failed != nil:
		b = append(b, `{"Failed":[`...)
		b = failed.Submission.appendJSON(b)
		b = append(b, ',')
		b = failed.Chunk.appendJSON(b)
		b = append(b, ']')
	case cancelled != nil:
		b = append(b, `{"Cancelled":`...)
		b = cancelled.appendJSON(b)
	default:
		panic("wire: a status without a submission")
	}
	return append(b, '}')
}

func (s *Submission) appendJSON(b []byte) []byte {
	b = appendField(append(b, '{'), "id", int64(s.ID))
	b = appendJSONNullable(appendKey(b, "prefix"), s.Prefix)
	b = appendField(b, "chunks_total", s.ChunksTotal)
	b = appendField(b, "chunks_done", s.ChunksDone)
	b = appendField(b, "chunk_size", s.ChunkSize)
	b = appendJSONBytes(appendKey(b, "metadata"), s.Metadata)
	b = appendJSONMetadata(appendKey(b, "strategic_metadata"), s.StrategicMetadata)
	b = appendJSONText(appendKey(b, "otel_trace_carrier"), s.OtelTraceCarrier)
	return append(b, '}')
}

func (s *SubmissionCompleted) appendJSON(b []byte) []byte {
	b = appendField(append(b, '{'), "id", int64(s.ID))
	b = appendJSONNullable(appendKey(b, "prefix"), s.Prefix)
	b = appendField(b, "chunks_total", s.ChunksTotal)
	b = appendField(b, "chunk_size", s.ChunkSize)
	b = appendJSONBytes(appendKey(b, "metadata"), s.Metadata)
	b = appendJSONMetadata(appendKey(b, "strategic_metadata"), s.StrategicMetadata)
	b = appendJSONTime(appendKey(b, "completed_at"), s.CompletedAt)
	b = appendJSONText(appendKey(b, "otel_trace_carrier"), s.OtelTraceCarrier)
	return append(b, '}')
}

func (s *SubmissionFailed) appendJSON(b []byte) []byte {
	b = appendField(append(b, '{'), "id", int64(s.ID))
	b = appendJSONNullable(appendKey(b, "prefix"), s.Prefix)
	b = appendField(b, "chunks_total", s.ChunksTotal)
	if s.ChunksDone == nil {
		b = append(appendKey(b, "chunks_done"), "null"...)
	} else {
		b = appendField(b, "chunks_done", *s.ChunksDone)
	}
	b = appendField(b, "chunk_size", s.ChunkSize)
	b = appendJSONBytes(appendKey(b, "metadata"), s.Metadata)
	b = appendJSONMetadata(appendKey(b, "strategic_metadata"), s.StrategicMetadata)
	b = appendJSONTime(appendKey(b, "failed_at"), s.FailedAt)
	b = appendField(b, "failed_chunk_id", s.FailedChunkIndex)
	b = appendJSONText(appendKey(b, "otel_trace_carrier"), s.OtelTraceCarrier)
	return append(b, '}')
}

func (s *SubmissionCancelled) appendJSON(b []byte) []byte {
	b = appendField(append(b, '{'), "id", int64(s.ID))
	b = appendJSONNullable(appendKey(b, "prefix"), s.Prefix)
	b = appendField(b, "chunks_total", s.ChunksTotal)
	b = appendField(b, "chunks_done", s.ChunksDone)
	b = appendJSONBytes(appendKey(b, "metadata"), s.Metadata)
	b = appendJSONMetadata(appendKey(b, "strategic_metadata"), s.StrategicMetadata)
	b = appendJSONTime(appendKey(b, "cancelled_at"), s.CancelledAt)
	return append(b, '}')
}

func (c *ChunkFailed) appendJSON(b []byte) []byte {
	b = appendField(append(b, '{'), "submission_id", int64(c.ID.SubmissionID))
	b = appendField(b, "chunk_index", c.ID.Index)
	b = appendJSONBytes(appendKey(b, "input_content"), c.InputContent)
	b = appendJSONText(appendKey(b, "failure"), c.Failure)
	b = appendJSONTime(appendKey(b, "failed_at"), c.FailedAt)
	return append(b, '}')
}
