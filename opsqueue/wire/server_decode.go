package wire

var (
	initFields = fields{"Init", []string{"max_missable_heartbeats", "heartbeat_interval", "version_info", "conn_id"}, 4}
	syncFields = fields{"Sync", []string{"nonce", "contents"}, 2}
)

// DecodeServerToClient decodes a message to a consumer from CBOR, by the rules of the original's client. It returns
// ErrMalformed or ErrShape if the message is not valid. The result does not share memory with the message.
func DecodeServerToClient(message []byte) (ServerToClient, error) {
	const of = "ServerToClientMessage"
	reader, err := newCBORReader(message)
	if err != nil {
		return nil, err
	}
	r := &reader
	name, payload, err := r.variant(of)
	if err != nil {
		return nil, err
	}
	if payload {
		switch string(name) {
		case "Init":
			return r.init()
		case "Sync":
			return r.sync()
		case "Async":
			return r.async()
		}
	}
	return nil, unknownVariant(of, name, payload)
}

func (r *cborReader) init() (ServerToClient, error) {
	m, err := r.mapOf(&initFields)
	if err != nil {
		return nil, err
	}
	var out Init
	var seen seen
	for m.more(r) {
		field, err := r.field(&initFields, &seen)
		if err != nil {
			return nil, err
		}
		switch field {
		case "max_missable_heartbeats":
			out.MaxMissableHeartbeats, err = r.uint(field)
		case "heartbeat_interval":
			out.HeartbeatInterval, err = r.duration(field)
		case "version_info":
			out.VersionInfo, err = r.text(field)
		case "conn_id":
			out.ConnID, err = r.text(field)
		default:
			r.skip()
		}
		if err != nil {
			return nil, err
		}
	}
	return out, initFields.complete(seen)
}

func (r *cborReader) sync() (ServerToClient, error) {
	m, err := r.mapOf(&syncFields)
	if err != nil {
		return nil, err
	}
	var out ChunksReserved
	var seen seen
	for m.more(r) {
		field, err := r.field(&syncFields, &seen)
		if err != nil {
			return nil, err
		}
		switch field {
		case "nonce":
			out.Nonce, err = r.uint(field)
		case "contents":
			out.Chunks, out.MaxIsZero, err = r.chunksReserved()
		default:
			r.skip()
		}
		if err != nil {
			return nil, err
		}
	}
	return out, syncFields.complete(seen)
}

// chunksReserved reads {"ChunksReserved": {"Ok": […]}} or {"ChunksReserved": {"Err": []}}.
func (r *cborReader) chunksReserved() (chunks []ReservedChunk, maxIsZero bool, err error) {
	name, payload, err := r.variant("SyncServerToClientResponse")
	if err == nil && (!payload || string(name) != "ChunksReserved") {
		err = unknownVariant("SyncServerToClientResponse", name, payload)
	}
	if err != nil {
		return nil, false, err
	}
	name, payload, err = r.variant("Result")
	if err != nil {
		return nil, false, err
	}
	if !payload || string(name) != "Ok" && string(name) != "Err" {
		return nil, false, unknownVariant("Result", name, payload)
	}
	maxIsZero = string(name) == "Err"
	h := r.head()
	if h.major != majorArray {
		return nil, false, wrongType("the result", "an array", h)
	}
	elements := items{h.arg, h.indefinite}
	for elements.more(r) {
		if maxIsZero {
			return nil, false, shapeError("the array of Err is not empty")
		}
		c, err := r.reservedChunk()
		if err != nil {
			return nil, false, err
		}
		chunks = append(chunks, c)
	}
	return chunks, maxIsZero, nil
}

// reservedChunk reads [Chunk, Submission]. It refuses an array of indefinite length, because the original does not read
// the end of one here.
func (r *cborReader) reservedChunk() (c ReservedChunk, err error) {
	if h := r.head(); h.major != majorArray || h.indefinite || h.arg != 2 {
		return c, shapeError("a reserved chunk is not an array of definite length with a Chunk and a Submission")
	}
	if c.Chunk, err = r.chunk(); err != nil {
		return c, err
	}
	c.Submission, err = r.submission()
	return c, err
}

func (r *cborReader) async() (ServerToClient, error) {
	name, payload, err := r.variant("AsyncServerToClientMessage")
	if err != nil {
		return nil, err
	}
	if !payload || string(name) != "ChunkReservationExpired" {
		return nil, unknownVariant("AsyncServerToClientMessage", name, payload)
	}
	id, err := r.chunkID()
	return ChunkReservationExpired{id}, err
}
