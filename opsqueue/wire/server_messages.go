package wire

import "time"

// ServerToClient is a message to a consumer: one of Init, ChunksReserved and ChunkReservationExpired.
type ServerToClient interface {
	// AppendCBOR appends the message, with byte vectors as byte strings.
	AppendCBOR(b []byte) []byte
}

// Init is the first message of a connection:
//
//	{"Init": {"max_missable_heartbeats": number, "heartbeat_interval": Duration, "version_info": text, "conn_id": text}}
type Init struct {
	MaxMissableHeartbeats uint64
	HeartbeatInterval     time.Duration // not negative
	VersionInfo           string        // a client of a different version logs a warning
	ConnID                string
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

// ReservedChunk is a chunk with its submission.
type ReservedChunk struct {
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

// AppendCBOR implements ServerToClient.
func (m Init) AppendCBOR(b []byte) []byte {
	b = appendMapHead(appendVariant(b, "Init"), 4)
	b = appendText(b, "max_missable_heartbeats")
	b = appendUint(b, m.MaxMissableHeartbeats)
	b = appendText(b, "heartbeat_interval")
	b = appendDuration(b, m.HeartbeatInterval)
	b = appendText(b, "version_info")
	b = appendText(b, m.VersionInfo)
	b = appendText(b, "conn_id")
	return appendText(b, m.ConnID)
}

// AppendCBOR implements ServerToClient.
func (m ChunksReserved) AppendCBOR(b []byte) []byte {
	b = appendMapHead(appendVariant(b, "Sync"), 2)
	b = appendText(b, "nonce")
	b = appendUint(b, m.Nonce)
	b = appendText(b, "contents")
	b = appendVariant(b, "ChunksReserved")
	if m.MaxIsZero {
		return appendArrayHead(appendVariant(b, "Err"), 0)
	}
	b = appendArrayHead(appendVariant(b, "Ok"), len(m.Chunks))
	for i := range m.Chunks {
		c := &m.Chunks[i]
		b = appendArrayHead(b, 2)
		b = appendChunk(b, &c.Chunk)
		b = appendSubmission(b, &c.Submission)
	}
	return b
}

// AppendCBOR implements ServerToClient.
func (m ChunkReservationExpired) AppendCBOR(b []byte) []byte {
	return appendChunkID(appendVariant(appendVariant(b, "Async"), "ChunkReservationExpired"), m.ID)
}
