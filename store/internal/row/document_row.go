package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// A named document has one row with its versions, and one row for the text of each version. A document that is a blob
// has no text. The row of a deleted document has another key, so lists read existing documents only.

// DocumentName identifies a named document.
type DocumentName struct {
	Kind         job.DocumentKind
	Client, Name string // Client "": it belongs to no client
}

// Document is a named document, or a deleted one, without its texts.
type Document struct {
	DocumentName
	Versions []DocumentVersion // by number; the newest is the last
}

// DocumentVersion is a change of a document.
type DocumentVersion struct {
	Seq     uint64 // of the command that made it
	At      int64
	Number  int
	Deleted bool               // it deleted the document, and has none of the following
	Digest  job.DocumentDigest // of the document
	Bytes   int                // of the text
	Summary string
	By      string
}

func (d *Document) Encode() []byte {
	e := make(lsm.Encoder, 0, 80*len(d.Versions))
	e.Uint(uint64(len(d.Versions)))
	for i := range d.Versions {
		v := &d.Versions[i]
		e.Uint(v.Seq)
		e.Int(v.At)
		e.Uint(uint64(v.Number))
		e.Text(v.By)
		e.Bool(v.Deleted)
		if !v.Deleted {
			e.Bytes(v.Digest[:])
			e.Uint(uint64(v.Bytes))
			e.Text(v.Summary)
		}
	}
	return e
}

func DecodeDocument(name DocumentName, value []byte) *Document {
	r := lsm.Decoder(value)
	d := &Document{DocumentName: name, Versions: make([]DocumentVersion, r.Count(4))}
	for i := range d.Versions {
		v := &d.Versions[i]
		v.Seq, v.At, v.Number, v.By, v.Deleted = r.Uint(), r.Int(), int(r.Uint()), r.Text(), r.Bool()
		if v.Deleted {
			continue
		}
		if copy(v.Digest[:], r.Bytes()) != len(v.Digest) {
			lsm.Contradict("decode", "a digest of another length than %d", len(v.Digest))
		}
		v.Bytes, v.Summary = int(r.Uint()), r.Text()
	}
	return d
}

// ReadDocument returns a document that exists or whose history is kept, or nil.
func ReadDocument(r lsm.Rows, name DocumentName) *Document {
	for _, deleted := range [...]bool{false, true} {
		if value := r.Get(DocumentKey(name, deleted)); value != nil {
			return DecodeDocument(name, value)
		}
	}
	return nil
}

// Newest returns the newest version, which may be a deletion.
func (d *Document) Newest() *DocumentVersion { return &d.Versions[len(d.Versions)-1] }

// Exists reports whether there is a document. d may be nil.
func (d *Document) Exists() bool { return d != nil && !d.Newest().Deleted }

// Kept returns the versions whose documents the server keeps: the ones after the last deletion.
func (d *Document) Kept() []DocumentVersion {
	for i := len(d.Versions); i > 0; i-- {
		if d.Versions[i-1].Deleted {
			return d.Versions[i:]
		}
	}
	return d.Versions
}

// Named describes a version of the document.
func (d *Document) Named(v *DocumentVersion) document.Named {
	kept := d.Kept()
	return document.Named{
		ID: v.Id(), Client: d.Client, Name: d.Name, Version: v.Number, Digest: v.Digest, Bytes: v.Bytes, Summary: v.Summary,
		Newest: v == d.Newest(), Deleted: v.Deleted, Gone: !v.Deleted && (len(kept) == 0 || v.Number < kept[0].Number), By: v.By, CreatedAt: v.At,
	}
}

func (v *DocumentVersion) Id() job.ID { return job.NewID(v.At, v.Seq, 0) }

// EncodeDeletion returns the row that lists the document by its deletion.
func (n *DocumentName) EncodeDeletion() []byte {
	e := make(lsm.Encoder, 0, len(n.Name)+len(n.Client)+2)
	e.Text(n.Client)
	e.Text(n.Name)
	return e
}

func DecodeDeletion(kind job.DocumentKind, value []byte) DocumentName {
	d := lsm.Decoder(value)
	return DocumentName{kind, d.Text(), d.Text()}
}

// EncodeForgotten returns the row under DeletionKey of 0.
func EncodeForgotten(number int) (e lsm.Encoder) {
	e.Uint(uint64(number))
	return e
}

func DecodeForgotten(value []byte) int {
	d := lsm.Decoder(value)
	return int(d.Uint())
}

// DocumentText is the row of the text of a version.
type DocumentText struct {
	DocumentName
	Seq  uint64
	At   int64
	Text []byte
}

func (t *DocumentText) Id() job.ID { return job.NewID(t.At, t.Seq, 0) }

func (t *DocumentText) Encode() []byte {
	e := make(lsm.Encoder, 0, len(t.Text)+len(t.Client)+len(t.Name)+16)
	e.Uint(uint64(t.Kind))
	e.Text(t.Client)
	e.Text(t.Name)
	e.Int(t.At)
	e.Bytes(t.Text)
	return e
}

// ReadDocumentText returns the text that a command stored, or nil.
func ReadDocumentText(r lsm.Rows, seq uint64) *DocumentText {
	value := r.Get(SeqKey(DocumentTextTable, seq))
	if value == nil {
		return nil
	}
	return DecodeDocumentText(seq, value)
}

// DecodeDocumentText returns the text in a row. It has the bytes of the value.
func DecodeDocumentText(seq uint64, value []byte) *DocumentText {
	d := lsm.Decoder(value)
	return &DocumentText{Seq: seq, DocumentName: DocumentName{job.DocumentKind(d.Uint()), d.Text(), d.Text()}, At: d.Int(), Text: d.Bytes()}
}
