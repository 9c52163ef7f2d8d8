package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// A handler has one row that lists its versions, and one row for the document of each version.

// handler is a handler without its documents. If it is for all clients, its queueName has an empty client.
type handler struct {
	queueName
	versions []handlerVersion // by number; the newest is the last
}

type handlerVersion struct {
	seq    uint64 // of the command that stored it
	at     int64
	number int
	kind   string
	digest job.HandlerDigest // of the document
	bytes  int               // of the document
}

func (h *handler) encode() []byte {
	e := make(lsm.Encoder, 0, 64*len(h.versions))
	e.Uint(uint64(len(h.versions)))
	for i := range h.versions {
		v := &h.versions[i]
		e.Uint(v.seq)
		e.Int(v.at)
		e.Uint(uint64(v.number))
		e.Text(v.kind)
		e.Bytes(v.digest[:])
		e.Uint(uint64(v.bytes))
	}
	return e
}

func decodeHandler(name queueName, value []byte) *handler {
	d := lsm.Decoder(value)
	h := &handler{queueName: name, versions: make([]handlerVersion, d.Uint())}
	for i := range h.versions {
		v := &h.versions[i]
		v.seq, v.at, v.number, v.kind = d.Uint(), d.Int(), int(d.Uint()), d.Text()
		if copy(v.digest[:], d.Bytes()) != len(v.digest) {
			lsm.Contradict("decode", "a digest of another length than %d", len(v.digest))
		}
		v.bytes = int(d.Uint())
	}
	return h
}

// readHandler returns the handler of a name, or nil.
func readHandler(r lsm.Rows, name queueName) *handler {
	if value := r.Get(handlerKey(name)); value != nil {
		return decodeHandler(name, value)
	}
	return nil
}

// handlerDocument is the row of the document of a version.
type handlerDocument struct {
	queueName
	seq  uint64
	at   int64
	text []byte
}

func (t *handlerDocument) id() job.ID { return job.NewID(t.at, t.seq, 0) }

func (t *handlerDocument) encode() []byte {
	e := make(lsm.Encoder, 0, len(t.text)+len(t.client)+len(t.typ)+16)
	e.Text(t.client)
	e.Text(t.typ)
	e.Int(t.at)
	e.Bytes(t.text)
	return e
}

// readHandlerDocument returns the document that a command stored, or nil.
func readHandlerDocument(r lsm.Rows, seq uint64) *handlerDocument {
	value := r.Get(seqKey(handlerDocumentTable, seq))
	if value == nil {
		return nil
	}
	d := lsm.Decoder(value)
	return &handlerDocument{seq: seq, queueName: queueName{d.Text(), d.Text()}, at: d.Int(), text: d.Bytes()}
}

func (v *handlerVersion) id() job.ID { return job.NewID(v.at, v.seq, 0) }

func (h *handler) newest() *handlerVersion { return &h.versions[len(h.versions)-1] }

// document returns the document of a version of the handler.
func (h *handler) document(v *handlerVersion) Handler {
	return Handler{
		ID: v.id(), Client: h.client, Type: h.typ, Version: v.number, Kind: v.kind, Digest: v.digest, Bytes: v.bytes,
		Newest: v == h.newest(), CreatedAt: v.at,
	}
}
