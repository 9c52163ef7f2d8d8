package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// A handler has one row that lists its versions, and one row for the document of each version.

// Handler is a handler without its documents. If it is for all clients, its QueueName has an empty client.
type Handler struct {
	QueueName
	Versions []HandlerVersion // by number; the newest is the last
}

type HandlerVersion struct {
	Seq    uint64 // of the command that stored it
	At     int64
	Number int
	Kind   string
	Digest job.HandlerDigest // of the document
	Bytes  int               // of the document
}

func (h *Handler) Encode() []byte {
	e := make(lsm.Encoder, 0, 64*len(h.Versions))
	e.Uint(uint64(len(h.Versions)))
	for i := range h.Versions {
		v := &h.Versions[i]
		e.Uint(v.Seq)
		e.Int(v.At)
		e.Uint(uint64(v.Number))
		e.Text(v.Kind)
		e.Bytes(v.Digest[:])
		e.Uint(uint64(v.Bytes))
	}
	return e
}

func DecodeHandler(name QueueName, value []byte) *Handler {
	d := lsm.Decoder(value)
	h := &Handler{QueueName: name, Versions: make([]HandlerVersion, d.Uint())}
	for i := range h.Versions {
		v := &h.Versions[i]
		v.Seq, v.At, v.Number, v.Kind = d.Uint(), d.Int(), int(d.Uint()), d.Text()
		if copy(v.Digest[:], d.Bytes()) != len(v.Digest) {
			lsm.Contradict("decode", "a digest of another length than %d", len(v.Digest))
		}
		v.Bytes = int(d.Uint())
	}
	return h
}

// ReadHandler returns the handler of a name, or nil.
func ReadHandler(r lsm.Rows, name QueueName) *Handler {
	if value := r.Get(HandlerKey(name)); value != nil {
		return DecodeHandler(name, value)
	}
	return nil
}

// HandlerDocument is the row of the document of a version.
type HandlerDocument struct {
	QueueName
	Seq  uint64
	At   int64
	Text []byte
}

func (t *HandlerDocument) Id() job.ID { return job.NewID(t.At, t.Seq, 0) }

func (t *HandlerDocument) Encode() []byte {
	e := make(lsm.Encoder, 0, len(t.Text)+len(t.Client)+len(t.Typ)+16)
	e.Text(t.Client)
	e.Text(t.Typ)
	e.Int(t.At)
	e.Bytes(t.Text)
	return e
}

// ReadHandlerDocument returns the document that a command stored, or nil.
func ReadHandlerDocument(r lsm.Rows, seq uint64) *HandlerDocument {
	value := r.Get(SeqKey(HandlerDocumentTable, seq))
	if value == nil {
		return nil
	}
	d := lsm.Decoder(value)
	return &HandlerDocument{Seq: seq, QueueName: QueueName{d.Text(), d.Text()}, At: d.Int(), Text: d.Bytes()}
}

func (v *HandlerVersion) Id() job.ID { return job.NewID(v.At, v.Seq, 0) }

func (h *Handler) Newest() *HandlerVersion { return &h.Versions[len(h.Versions)-1] }

// Document returns the document of a version of the handler.
func (h *Handler) Document(v *HandlerVersion) document.Handler {
	return document.Handler{
		ID: v.Id(), Client: h.Client, Type: h.Typ, Version: v.Number, Kind: v.Kind, Digest: v.Digest, Bytes: v.Bytes,
		Newest: v == h.Newest(), CreatedAt: v.At,
	}
}
