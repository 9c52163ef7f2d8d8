package wire

import "time"

// ChunkID identifies a chunk: its submission, and its index in it, from 0.
type ChunkID struct {
	SubmissionID SubmissionID
	Index        int64
}

// Chunk is a chunk that a consumer reserved.
type Chunk struct {
	ID ChunkID
	// InputContent is nil if the content is in the object store.
	InputContent []byte
	// Retries is how often the chunk has failed.
	Retries int64
}

// ChunkFailed is the chunk for which a submission failed.
type ChunkFailed struct {
	ID           ChunkID
	InputContent []byte // nil: in the object store
	Failure      string
	FailedAt     time.Time
}

var (
	chunkIDFields = fields{"ChunkId", []string{"submission_id", "chunk_index"}, 2}
	chunkFields   = fields{"Chunk", []string{"submission_id", "chunk_index", "retries", "input_content"}, 3}
)

func (r *cborReader) chunkID() (id ChunkID, err error) {
	m, err := r.mapOf(&chunkIDFields)
	if err != nil {
		return id, err
	}
	var seen seen
	for m.more(r) {
		field, err := r.field(&chunkIDFields, &seen)
		if err != nil {
			return id, err
		}
		if err := r.chunkIDField(field, &id); err != nil {
			return id, err
		}
	}
	return id, chunkIDFields.complete(seen)
}

func (r *cborReader) chunkIDField(field string, id *ChunkID) (err error) {
	switch field {
	case "submission_id":
		var n int64
		n, err = r.uint63(field)
		id.SubmissionID = SubmissionID(n)
	case "chunk_index":
		id.Index, err = r.uint63(field)
	default:
		r.skip()
	}
	return err
}

func (r *cborReader) chunk() (c Chunk, err error) {
	m, err := r.mapOf(&chunkFields)
	if err != nil {
		return c, err
	}
	var seen seen
	for m.more(r) {
		field, err := r.field(&chunkFields, &seen)
		if err != nil {
			return c, err
		}
		switch field {
		case "retries":
			c.Retries, err = r.int(field)
		case "input_content":
			c.InputContent, err = r.bytes(field)
		default:
			err = r.chunkIDField(field, &c.ID)
		}
		if err != nil {
			return c, err
		}
	}
	return c, chunkFields.complete(seen)
}

func appendChunkID(b []byte, id ChunkID) []byte {
	return appendChunkIDFields(appendMapHead(b, 2), id)
}

func appendChunkIDFields(b []byte, id ChunkID) []byte {
	b = appendText(b, "submission_id")
	b = appendUint(b, uint64(id.SubmissionID))
	b = appendText(b, "chunk_index")
	return appendUint(b, uint64(id.Index))
}

func appendChunk(b []byte, c *Chunk) []byte {
	b = appendChunkIDFields(appendMapHead(b, 4), c.ID)
	b = appendText(b, "input_content")
	b = appendByteString(b, c.InputContent)
	b = appendText(b, "retries")
	return appendInt(b, c.Retries)
}
