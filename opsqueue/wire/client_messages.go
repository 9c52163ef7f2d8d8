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
type ClientContents interface{ variant() contents }

// WantToReserveChunks requests chunks. The server replies with exactly one ChunksReserved, possibly much later.
type WantToReserveChunks struct {
	Max      uint64   `json:"max"`
	Strategy Strategy `json:"strategy"`
}

// CompleteChunk reports that a chunk was completed. There is no reply.
type CompleteChunk struct {
	ID ChunkID `json:"id"`
	// OutputContent is nil if the output is in the object store.
	OutputContent []byte `json:"output_content"`
}

// FailChunk reports that a chunk failed. There is no reply.
type FailChunk struct {
	ID      ChunkID `json:"id"`
	Failure string  `json:"failure"`
}

// envelope is a ClientToServer on the wire.
type envelope struct {
	Nonce    uint64   `json:"nonce"`
	Contents contents `json:"contents"`
}

type contents struct {
	WantToReserveChunks *WantToReserveChunks `json:",omitzero"`
	CompleteChunk       *CompleteChunk       `json:",omitzero"`
	FailChunk           *FailChunk           `json:",omitzero"`
}

func (c *contents) decode(r reader, of string) error { return oneOf(r, of, c) }

func (c WantToReserveChunks) variant() contents { return contents{WantToReserveChunks: &c} }
func (c CompleteChunk) variant() contents       { return contents{CompleteChunk: &c} }
func (c FailChunk) variant() contents           { return contents{FailChunk: &c} }

// MarshalCBOR implements cbor.Marshaler.
func (c CompleteChunk) MarshalCBOR() ([]byte, error) {
	return encodeCBOR(struct {
		ID            ChunkID  `json:"id"`
		OutputContent []uint16 `json:"output_content"`
	}{c.ID, widened(c.OutputContent)}), nil
}

// EncodeClientToServer encodes a message as the original's consumer does, with byte vectors as arrays of numbers.
func EncodeClientToServer(m ClientToServer) []byte {
	return encodeCBOR(envelope{m.Nonce, m.Contents.variant()})
}

// DecodeClientToServer decodes a consumer's message from CBOR. It returns ErrMalformed or ErrShape if the message is not
// valid. The result does not share memory with the message.
func DecodeClientToServer(message []byte) (ClientToServer, error) {
	var e envelope
	if err := decodeCBOR(message, &e); err != nil {
		return ClientToServer{}, err
	}
	out := ClientToServer{Nonce: e.Nonce}
	switch c := e.Contents; {
	case c.WantToReserveChunks != nil:
		out.Contents = *c.WantToReserveChunks
	case c.CompleteChunk != nil:
		out.Contents = *c.CompleteChunk
	default:
		out.Contents = *c.FailChunk
	}
	return out, nil
}
