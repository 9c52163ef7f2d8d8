package wire

import "time"

// Submission is a submission in progress. It has the same eight fields in JSON and in CBOR.
type Submission struct {
	ID                SubmissionID
	Prefix            *string // name in the object store; nil if the request had the contents
	ChunksTotal       int64
	ChunksDone        int64
	ChunkSize         int64 // operations in a chunk, as given by the producer
	Metadata          []byte
	StrategicMetadata Metadata
	OtelTraceCarrier  string // a JSON object of strings; {} without a trace
}

// SubmissionCompleted is a submission whose chunks were all completed.
type SubmissionCompleted struct {
	ID                SubmissionID
	Prefix            *string
	ChunksTotal       int64
	ChunkSize         int64
	Metadata          []byte
	StrategicMetadata Metadata
	OtelTraceCarrier  string
	CompletedAt       time.Time
}

// SubmissionFailed is a submission with a chunk that failed too often.
type SubmissionFailed struct {
	ID                SubmissionID
	Prefix            *string
	ChunksTotal       int64
	ChunksDone        *int64 // nil if unknown
	ChunkSize         int64
	Metadata          []byte
	StrategicMetadata Metadata
	OtelTraceCarrier  string
	FailedAt          time.Time
	FailedChunkIndex  int64
}

// SubmissionCancelled is a submission that its producer cancelled.
type SubmissionCancelled struct {
	ID                SubmissionID
	Prefix            *string
	ChunksTotal       int64
	ChunksDone        int64
	Metadata          []byte
	StrategicMetadata Metadata
	CancelledAt       time.Time
}

// SubmissionStatus is the status of a submission. Exactly one field is set. The route answers null for an unknown
// submission.
type SubmissionStatus struct {
	InProgress *Submission
	Completed  *SubmissionCompleted
	Failed     *FailedWithChunk
	Cancelled  *SubmissionCancelled
}

// SubmissionNotCancellable is the status of a submission that cannot be cancelled because it has ended. Exactly one field
// is set.
type SubmissionNotCancellable struct {
	Completed *SubmissionCompleted
	Failed    *FailedWithChunk
	Cancelled *SubmissionCancelled
}

// FailedWithChunk is an array of a failed submission and the chunk that failed.
type FailedWithChunk struct {
	Submission SubmissionFailed
	Chunk      ChunkFailed
}

// InsertSubmission is the request that creates a submission. Exactly one of SeeObjectStorage and Direct is set.
type InsertSubmission struct {
	SeeObjectStorage  *SeeObjectStorage
	Direct            *Direct
	Metadata          []byte
	StrategicMetadata Metadata
	ChunkSize         *int64 // nil: the server's default, which is 1
}

// SeeObjectStorage says that the producer has put the contents into an object store.
type SeeObjectStorage struct {
	Prefix string
	Count  int64 // number of chunks
}

// Direct has the contents in the request. A nil chunk was null.
type Direct struct {
	Contents [][]byte
}

func (r *cborReader) submission() (out Submission, err error) {
	m, err := r.mapOf(&submissionFields)
	if err != nil {
		return out, err
	}
	var seen seen
	for m.more(r) {
		field, err := r.field(&submissionFields, &seen)
		if err != nil {
			return out, err
		}
		switch field {
		case "id":
			var n int64
			n, err = r.uint63(field)
			out.ID = SubmissionID(n)
		case "prefix":
			out.Prefix, err = r.nullableText(field)
		case "chunks_total":
			out.ChunksTotal, err = r.uint63(field)
		case "chunks_done":
			out.ChunksDone, err = r.uint63(field)
		case "chunk_size":
			out.ChunkSize, err = r.int(field)
		case "metadata":
			out.Metadata, err = r.bytes(field)
		case "strategic_metadata":
			out.StrategicMetadata, err = r.metadata()
		case "otel_trace_carrier":
			out.OtelTraceCarrier, err = r.text(field)
		default:
			r.skip()
		}
		if err != nil {
			return out, err
		}
	}
	return out, submissionFields.complete(seen)
}

func (r *cborReader) nullableText(what string) (*string, error) {
	if r.null() {
		return nil, nil
	}
	text, err := r.text(what)
	return &text, err
}

func (r *cborReader) metadata() (Metadata, error) {
	h := r.head()
	if h.major != majorMap {
		return nil, wrongType("strategic_metadata", "a map", h)
	}
	pairs := make([]MetadataPair, 0, h.arg) // at most MaxMetadataPairs
	m := items{h.arg, h.indefinite}
	for m.more(r) {
		key, err := r.text("a key of strategic_metadata")
		if err != nil {
			return nil, err
		}
		value, err := r.int("a value of strategic_metadata")
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, MetadataPair{key, value})
	}
	return NewMetadata(pairs), nil
}

func appendSubmission(b []byte, s *Submission) []byte {
	b = appendMapHead(b, 8)
	b = appendText(b, "id")
	b = appendUint(b, uint64(s.ID))
	b = appendText(b, "prefix")
	b = appendNullable(b, s.Prefix)
	b = appendText(b, "chunks_total")
	b = appendUint(b, uint64(s.ChunksTotal))
	b = appendText(b, "chunks_done")
	b = appendUint(b, uint64(s.ChunksDone))
	b = appendText(b, "chunk_size")
	b = appendInt(b, s.ChunkSize)
	b = appendText(b, "metadata")
	b = appendByteString(b, s.Metadata)
	b = appendText(b, "strategic_metadata")
	b = appendMetadata(b, s.StrategicMetadata)
	b = appendText(b, "otel_trace_carrier")
	return appendText(b, s.OtelTraceCarrier)
}
