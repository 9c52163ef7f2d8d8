package wire

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ChunkID identifies a chunk: its submission, and its index in it, from 0.
type ChunkID struct {
	SubmissionID SubmissionID `json:"submission_id"`
	Index        int64        `json:"chunk_index"`
}

// Chunk is a chunk that a consumer reserved.
type Chunk struct {
	ChunkID
	// InputContent is nil if the content is in the object store.
	InputContent []byte `json:"input_content"`
	// Retries is how often the chunk has failed.
	Retries int64 `json:"retries" wire:"signed"`
}

// ChunkFailed is the chunk for which a submission failed.
type ChunkFailed struct {
	ChunkID
	InputContent []byte    `json:"input_content"` // nil: in the object store
	Failure      string    `json:"failure"`
	FailedAt     time.Time `json:"failed_at"`
}

// Submission is a submission in progress. It is the same in JSON and in CBOR.
type Submission struct {
	ID                SubmissionID `json:"id"`
	Prefix            *string      `json:"prefix"` // name in the object store; nil if the request had the contents
	ChunksTotal       int64        `json:"chunks_total"`
	ChunksDone        int64        `json:"chunks_done"`
	ChunkSize         int64        `json:"chunk_size" wire:"signed"` // operations in a chunk, as given by the producer
	Metadata          []byte       `json:"metadata"`
	StrategicMetadata Metadata     `json:"strategic_metadata"`
	OtelTraceCarrier  string       `json:"otel_trace_carrier"` // a JSON object of strings; {} without a trace
}

// SubmissionCompleted is a submission whose chunks were all completed.
type SubmissionCompleted struct {
	ID                SubmissionID `json:"id"`
	Prefix            *string      `json:"prefix"`
	ChunksTotal       int64        `json:"chunks_total"`
	ChunkSize         int64        `json:"chunk_size" wire:"signed"`
	Metadata          []byte       `json:"metadata"`
	StrategicMetadata Metadata     `json:"strategic_metadata"`
	CompletedAt       time.Time    `json:"completed_at"`
	OtelTraceCarrier  string       `json:"otel_trace_carrier"`
}

// SubmissionFailed is a submission with a chunk that failed too often.
type SubmissionFailed struct {
	ID                SubmissionID `json:"id"`
	Prefix            *string      `json:"prefix"`
	ChunksTotal       int64        `json:"chunks_total"`
	ChunksDone        *int64       `json:"chunks_done"` // nil if unknown
	ChunkSize         int64        `json:"chunk_size" wire:"signed"`
	Metadata          []byte       `json:"metadata"`
	StrategicMetadata Metadata     `json:"strategic_metadata"`
	FailedAt          time.Time    `json:"failed_at"`
	FailedChunkIndex  int64        `json:"failed_chunk_id"`
	OtelTraceCarrier  string       `json:"otel_trace_carrier"`
}

// SubmissionCancelled is a submission that its producer cancelled.
type SubmissionCancelled struct {
	ID                SubmissionID `json:"id"`
	Prefix            *string      `json:"prefix"`
	ChunksTotal       int64        `json:"chunks_total"`
	ChunksDone        int64        `json:"chunks_done"`
	Metadata          []byte       `json:"metadata"`
	StrategicMetadata Metadata     `json:"strategic_metadata"`
	CancelledAt       time.Time    `json:"cancelled_at"`
}

// SubmissionStatus is the status of a submission. Exactly one field is set. The route answers null for an unknown
// submission.
type SubmissionStatus struct {
	InProgress *Submission          `json:",omitzero"`
	Completed  *SubmissionCompleted `json:",omitzero"`
	Failed     *FailedWithChunk     `json:",omitzero"`
	Cancelled  *SubmissionCancelled `json:",omitzero"`
}

// SubmissionNotCancellable is the status of a submission that cannot be cancelled because it has ended. Exactly one field
// is set.
type SubmissionNotCancellable struct {
	Completed *SubmissionCompleted `json:",omitzero"`
	Failed    *FailedWithChunk     `json:",omitzero"`
	Cancelled *SubmissionCancelled `json:",omitzero"`
}

// FailedWithChunk is an array of a failed submission and the chunk that failed.
type FailedWithChunk struct {
	Submission SubmissionFailed
	Chunk      ChunkFailed
}

// InsertSubmission is the request that creates a submission.
type InsertSubmission struct {
	Chunks            ChunkContents `json:"chunk_contents"`
	Metadata          []byte        `json:"metadata"`
	StrategicMetadata Metadata      `json:"strategic_metadata"`
	ChunkSize         *int64        `json:"chunk_size" wire:"signed"` // nil: the server's default, which is 1
}

// ChunkContents says where the contents of a new submission are. Exactly one field is set.
type ChunkContents struct {
	SeeObjectStorage *SeeObjectStorage `json:",omitzero"`
	Direct           *Direct           `json:",omitzero"`
}

// SeeObjectStorage says that the producer has put the contents into an object store.
type SeeObjectStorage struct {
	Prefix string `json:"prefix"`
	Count  int64  `json:"count"` // number of chunks
}

// Direct has the contents in the request. A nil chunk was null.
type Direct struct {
	Contents [][]byte `json:"contents"`
}

// Panic is the answer of status 500 after a panic.
type Panic struct {
	Error struct {
		Kind    string `json:"kind"` // panic
		Details string `json:"details"`
	} `json:"error"`
}

// NewPanic returns the answer after a panic.
func NewPanic(details string) (p Panic) {
	p.Error.Kind, p.Error.Details = "panic", details
	return p
}

func (s *SubmissionStatus) decode(r reader, of string) error {
	return oneOf(r, of, s)
}

func (s *SubmissionNotCancellable) decode(r reader, of string) error {
	return oneOf(r, of, s)
}

func (c *ChunkContents) decode(r reader, of string) error {
	return oneOf(r, of, c)
}

func (b *FailedWithChunk) decode(r reader, of string) error {
	return tuple(r, of, &b.Submission, &b.Chunk)
}

// MarshalJSONTo implements json.MarshalerTo.
func (b FailedWithChunk) MarshalJSONTo(e *jsontext.Encoder) error {
	return json.MarshalEncode(e, []any{b.Submission, b.Chunk})
}

// MarshalCBOR implements cbor.Marshaler. It replaces invalid UTF-8 by U+FFFD, because a client that receives invalid
// UTF-8 drops its connection.
func (s Submission) MarshalCBOR() ([]byte, error) {
	type plain Submission
	s.OtelTraceCarrier = validUTF8(s.OtelTraceCarrier)
	if s.Prefix != nil {
		prefix := validUTF8(*s.Prefix)
		s.Prefix = &prefix
	}
	return encodeCBOR(plain(s)), nil
}

func validUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
