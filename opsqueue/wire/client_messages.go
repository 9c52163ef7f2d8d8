package wire

// ClientToServer is a message of a consumer, with its envelope:
//
//	{"nonce": number, "contents": Contents}
type ClientToServer struct {
	// Nonce counts the messages of a connection from 0. The reply to a reservation repeats its nonce.
	Nonce    uint64
	Contents ClientContents
}

// ClientContents is one of WantToReserveChunks, CompleteChunk and FailChunk.
type ClientContents interface {
	appendContents(b []byte) []byte
}

// WantToReserveChunks requests chunks. The server replies with exactly one ChunksReserved, possibly much later.
type WantToReserveChunks struct {
	Max      uint64
	Strategy Strategy
}

// CompleteChunk reports that a chunk was completed. There is no reply.
type CompleteChunk struct {
	ID ChunkID
	// OutputContent is nil if the output is in the object store.
	OutputContent []byte
}

// FailChunk reports that a chunk failed. There is no reply.
type FailChunk struct {
	ID      ChunkID
	Failure string
}

var (
	envelopeFields      = fields{"Envelope", []string{"nonce", "contents"}, 2}
	wantToReserveFields = fields{"WantToReserveChunks", []string{"max", "strategy"}, 2}
	completeChunkFields = fields{"CompleteChunk", []string{"id", "output_content"}, 1}
	failChunkFields     = fields{"FailChunk", []string{"id", "failure"}, 2}
)

// DecodeClientToServer decodes a consumer's message from CBOR. It returns ErrMalformed or ErrShape if the message is not
// valid. The result does not share memory with the message.
func DecodeClientToServer(message []byte) (out ClientToServer, err error) {
	reader, err := newCBORReader(message)
	if err != nil {
		return out, err
	}
	r := &reader
	m, err := r.mapOf(&envelopeFields)
	if err != nil {
		return out, err
	}
	var seen seen
	for m.more(r) {
		field, err := r.field(&envelopeFields, &seen)
		if err != nil {
			return out, err
		}
		switch field {
		case "nonce":
			out.Nonce, err = r.uint(field)
		case "contents":
			out.Contents, err = r.clientContents()
		default:
			r.skip()
		}
		if err != nil {
			return out, err
		}
	}
	return out, envelopeFields.complete(seen)
}

func (r *cborReader) clientContents() (ClientContents, error) {
	const of = "ClientToServerMessage"
	name, payload, err := r.variant(of)
	if err != nil {
		return nil, err
	}
	if payload {
		switch string(name) {
		case "WantToReserveChunks":
			return r.wantToReserve()
		case "CompleteChunk":
			return r.completeChunk()
		case "FailChunk":
			return r.failChunk()
		}
	}
	return nil, unknownVariant(of, name, payload)
}

func (r *cborReader) wantToReserve() (ClientContents, error) {
	m, err := r.mapOf(&wantToReserveFields)
	if err != nil {
		return nil, err
	}
	var c WantToReserveChunks
	var seen seen
	for m.more(r) {
		field, err := r.field(&wantToReserveFields, &seen)
		if err != nil {
			return nil, err
		}
		switch field {
		case "max":
			c.Max, err = r.uint(field)
		case "strategy":
			c.Strategy, err = r.strategy()
		default:
			r.skip()
		}
		if err != nil {
			return nil, err
		}
	}
	return c, wantToReserveFields.complete(seen)
}

func (r *cborReader) completeChunk() (ClientContents, error) {
	m, err := r.mapOf(&completeChunkFields)
	if err != nil {
		return nil, err
	}
	var c CompleteChunk
	var seen seen
	for m.more(r) {
		field, err := r.field(&completeChunkFields, &seen)
		if err != nil {
			return nil, err
		}
		switch field {
		case "id":
			c.ID, err = r.chunkID()
		case "output_content":
			c.OutputContent, err = r.bytes(field)
		default:
			r.skip()
		}
		if err != nil {
			return nil, err
		}
	}
	return c, completeChunkFields.complete(seen)
}

func (r *cborReader) failChunk() (ClientContents, error) {
	m, err := r.mapOf(&failChunkFields)
	if err != nil {
		return nil, err
	}
	var c FailChunk
	var seen seen
	for m.more(r) {
		field, err := r.field(&failChunkFields, &seen)
		if err != nil {
			return nil, err
		}
		switch field {
		case "id":
			c.ID, err = r.chunkID()
		case "failure":
			c.Failure, err = r.text(field)
		default:
			r.skip()
		}
		if err != nil {
			return nil, err
		}
	}
	return c, failChunkFields.complete(seen)
}

// AppendCBOR appends the message as the original's consumer sends it, with byte vectors as arrays of numbers.
func (m ClientToServer) AppendCBOR(b []byte) []byte {
	b = appendMapHead(b, 2)
	b = appendText(b, "nonce")
	b = appendUint(b, m.Nonce)
	b = appendText(b, "contents")
	return m.Contents.appendContents(b)
}

func (c WantToReserveChunks) appendContents(b []byte) []byte {
	b = appendMapHead(appendVariant(b, "WantToReserveChunks"), 2)
	b = appendText(b, "max")
	b = appendUint(b, c.Max)
	b = appendText(b, "strategy")
	return appendStrategy(b, c.Strategy)
}

func (c CompleteChunk) appendContents(b []byte) []byte {
	b = appendMapHead(appendVariant(b, "CompleteChunk"), 2)
	b = appendText(b, "id")
	b = appendChunkID(b, c.ID)
	b = appendText(b, "output_content")
	return appendByteArray(b, c.OutputContent)
}

func (c FailChunk) appendContents(b []byte) []byte {
	b = appendMapHead(appendVariant(b, "FailChunk"), 2)
	b = appendText(b, "id")
	b = appendChunkID(b, c.ID)
	b = appendText(b, "failure")
	return appendText(b, c.Failure)
}
