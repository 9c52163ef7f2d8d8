package wire

// ServerToClient is a message to a consumer: one of Init, ChunksReserved and ChunkReservationExpired.
type ServerToClient interface{ variant() serverToClient }

// Init is the first message of a connection:
//
//	{"Init": {"max_missable_heartbeats": number, "heartbeat_interval": Duration, "version_info": text, "conn_id": text}}
type Init struct {
	MaxMissableHeartbeats uint64   `json:"max_missable_heartbeats"`
	HeartbeatInterval     Duration `json:"heartbeat_interval"`
	VersionInfo           string   `json:"version_info"` // a client of a different version logs a warning
	ConnID                string   `json:"conn_id"`
}

// ChunksReserved is the only reply to a WantToReserveChunks:
//
//	{"Sync": {"nonce": number, "contents": {"ChunksReserved": {"Ok": [[Chunk, Submission], …]}}}}
//
// With MaxIsZero, the result is {"Err": []} instead. The client reports that to its program as incorrect usage.
//
// A client exits if a nonce is answered twice, or if it does not expect the nonce.
type ChunksReserved struct {
	Nonce     uint64
	Chunks    []ReservedChunk
	MaxIsZero bool // the request had a max of 0; Chunks is empty
}

// ReservedChunk is an array of a chunk and its submission.
type ReservedChunk struct {
	_          struct{} `cbor:",toarray"`
	Chunk      Chunk
	Submission Submission
}

// ChunkReservationExpired reports that the reservation of a chunk has expired:
//
//	{"Async": {"ChunkReservationExpired": ChunkId}}
//
// The client replies with a FailChunk.
type ChunkReservationExpired struct {
	ID ChunkID
}

// serverToClient is a ServerToClient on the wire.
type serverToClient struct {
	Init  *Init   `json:",omitzero"`
	Sync  *reply  `json:",omitzero"`
	Async *notice `json:",omitzero"`
}

type reply struct {
	Nonce    uint64        `json:"nonce"`
	Contents replyContents `json:"contents"`
}

type replyContents struct {
	ChunksReserved *result `json:",omitzero"`
}

type result struct {
	Ok  *[]ReservedChunk `json:",omitzero"`
	Err *[]struct{}      `json:",omitzero"` // always empty
}

type notice struct {
	ChunkReservationExpired *ChunkID `json:",omitzero"`
}

func (m *serverToClient) decode(r reader, of string) error {
	return oneOf(r, of, m)
}
func (c *replyContents) decode(r reader, of string) error {
	return oneOf(r, of, c)
}
func (s *result) decode(r reader, of string) error { return oneOf(r, of, s) }
func (n *notice) decode(r reader, of string) error { return oneOf(r, of, n) }

func (c *ReservedChunk) decode(r reader, of string) error {
	return tuple(r, of, &c.Chunk, &c.Submission)
}

func (m Init) variant() serverToClient { return serverToClient{Init: &m} }

func (m ChunksReserved) variant() serverToClient {
	r := result{Err: &[]struct{}{}}
	if !m.MaxIsZero {
		chunks := append([]ReservedChunk{}, m.Chunks...) // never nil, which would be null
		r = result{Ok: &chunks}
	}
	return serverToClient{Sync: &reply{m.Nonce, replyContents{&r}}}
}

func (m ChunkReservationExpired) variant() serverToClient {
	return serverToClient{Async: &notice{&m.ID}}
}

// EncodeServerToClient encodes a message, with byte vectors as byte strings: the original reads these, too, and they are
// half as long as arrays on average.
func EncodeServerToClient(m ServerToClient) []byte { return encodeCBOR(m.variant()) }

// DecodeServerToClient decodes a message to a consumer from CBOR, by the rules of the original's client. It returns
// ErrMalformed or ErrShape if the message is not valid. The result does not share memory with the message.
func DecodeServerToClient(message []byte) (ServerToClient, error) {
	var m serverToClient
	if err := decodeCBOR(message, &m); err != nil {
		return nil, err
	}
	switch {
	case m.Init != nil:
		return *m.Init, nil
	case m.Async != nil:
		return ChunkReservationExpired{*m.Async.ChunkReservationExpired}, nil
	}
	out := ChunksReserved{Nonce: m.Sync.Nonce}
	r := m.Sync.Contents.ChunksReserved
	if out.MaxIsZero = r.Err != nil; !out.MaxIsZero {
		out.Chunks = *r.Ok
	} else if len(*r.Err) > 0 {
		return nil, shapeError("the array of Err is not empty")
	}
	return out, nil
}
