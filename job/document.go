package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// A named document is a text that the server keeps under a kind, a client and a name: the handler of a type, the manifest of a
// fileset, what a key permits, or whose a login is. Each change is a version, and the numbers of a name's versions only grow, also
// if the document is deleted and stored again. The newest versions are the name's history.

// DocumentKind is a kind of named documents. Rows hold its number, so a number never gets another meaning.
//
// To add a kind: a constant and its rules in documentKinds, in a file of this package; its routes.
type DocumentKind uint8

const (
	HandlerDocument DocumentKind = iota + 1
	FilesetDocument
	KeyDocument
	LoginDocument
	NumDocumentKinds
)

var documentKinds = [NumDocumentKinds]DocumentRules{HandlerDocument: handlerRules, FilesetDocument: filesetRules, KeyDocument: keyRules, LoginDocument: loginRules}

// DocumentRules are the rules of a kind.
type DocumentRules struct {
	Name string // in the journal
	// MaxBytes bounds a document. 0: the documents are blobs, and the store has only their digests.
	MaxBytes int
	MaxNames int   // existing documents
	MaxTotal int64 // bytes of all versions of all documents that the store keeps
	// InMemory keeps the newest version of each document in memory, without its text, for commands that need it often.
	InMemory          bool
	NotFound, TooMany Refusal
	Check             func(p *PutDocument) error // of the kind's own rules; the names and sizes are checked before
}

// DocumentKinds yields every kind.
func DocumentKinds(yield func(DocumentKind) bool) {
	for k := DocumentKind(1); k < NumDocumentKinds && yield(k); k++ {
	}
}

// Rules returns the rules of the kind.
func (k DocumentKind) Rules() *DocumentRules { return &documentKinds[k] }

// String returns the name of the kind.
func (k DocumentKind) String() string { return k.Rules().Name }

// DocumentDigest is the SHA-256 of a named document.
type DocumentDigest [sha256.Size]byte

// String returns the digest in the form sha256:hex.
func (d DocumentDigest) String() string { return digestPrefix + hex.EncodeToString(d[:]) }

const digestPrefix = "sha256:"

// ParseDocumentDigest is the inverse of String.
func ParseDocumentDigest(text string) (d DocumentDigest, err error) {
	digits, ok := strings.CutPrefix(text, digestPrefix)
	if n, bad := hex.Decode(d[:], []byte(digits[:min(len(digits), 2*len(d))])); !ok || bad != nil || n != len(d) || d.String() != text {
		return DocumentDigest{}, fmt.Errorf("%q is not sha256: and 64 hexadecimal digits", text)
	}
	return d, nil
}

// Condition is a condition of a change of a document on the version before it: none, IfNone, IfExists, the number of that
// version, or its digest.
type Condition string

const (
	IfNone   Condition = "none"
	IfExists Condition = "exists"
)

// IfVersion is the condition that the newest version has this number, or with 0 that there is no document.
func IfVersion(number int) Condition {
	if number == 0 {
		return IfNone
	}
	return Condition(strconv.Itoa(number))
}

// Check returns an error unless c has one of the forms of a condition.
func (c Condition) Check() error {
	if c == "" || c == IfNone || c == IfExists {
		return nil
	}
	if n, err := strconv.Atoi(string(c)); err == nil && n > 0 && strconv.Itoa(n) == string(c) {
		return nil
	}
	if _, err := ParseDocumentDigest(string(c)); err != nil {
		return fmt.Errorf("%q is neither the number of a version nor a digest", string(c))
	}
	return nil
}

// Holds reports whether the condition is met by a document whose newest version has this number and digest. The number
// is 0 if there is no document.
func (c Condition) Holds(number int, digest DocumentDigest) bool {
	switch {
	case c == "":
		return true
	case number == 0 || c == IfNone:
		return number == 0 && c == IfNone
	}
	return c == IfExists || string(c) == strconv.Itoa(number) || string(c) == digest.String()
}

// PutDocument stores a version of a named document. If the newest version has the same document, nothing is stored, and
// the command succeeds even if If no longer holds. So a client can repeat a change whose answer was lost. IfNone is an
// exception, and refuses the repeat.
type PutDocument struct {
	Kind     DocumentKind
	Client   string // "": the document belongs to no client
	Name     string
	Document []byte         // nil if the documents of the kind are blobs
	Digest   DocumentDigest // of such a blob, which the sender must have stored before
	Summary  string         // for lists, in the form of the kind
	If       Condition
	By       string // who says to store it, for people; "": unknown. The actor of the record, if any, counts instead
}

// DeleteDocument deletes a named document with the texts of all versions. Its history stays for a while.
type DeleteDocument struct {
	Kind         DocumentKind
	Client, Name string
	If           Condition
	By           string
}

func (PutDocument) Verb() string    { return "putdocument" }
func (DeleteDocument) Verb() string { return "deletedocument" }

func (p PutDocument) Encode() (fieldText, body []byte) {
	f := (&DeleteDocument{p.Kind, p.Client, p.Name, p.If, p.By}).fields()
	f.text("summary", p.Summary)
	if p.Kind.Rules().MaxBytes == 0 {
		f.text("digest", p.Digest.String())
	}
	return f, p.Document
}

func (d DeleteDocument) Encode() (fieldText, body []byte) { return d.fields(), nil }

func (d *DeleteDocument) fields() (f fields) {
	f.text("kind", d.Kind.String())
	f.text("client", d.Client)
	f.text("name", d.Name)
	f.text("if", string(d.If))
	f.text("author", d.By)
	return f
}

func decodePutDocument(r *fieldReader, body []byte) (Command, error) {
	var p PutDocument
	digested := false
	d := r.document(func(key, raw string) bool {
		switch key {
		case "summary":
			p.Summary = r.bounded(key, raw, MaxSummaryBytes)
		case "digest":
			var err error
			if p.Digest, err = ParseDocumentDigest(raw); err != nil {
				r.fail(fmt.Errorf("field %s: %w", key, err))
			}
			digested = true
		default:
			return false
		}
		return true
	})
	if r.err != nil {
		return nil, r.err
	}
	p.Kind, p.Client, p.Name, p.If, p.By = d.Kind, d.Client, d.Name, d.If, d.By
	rules := p.Kind.Rules()
	if digested != (rules.MaxBytes == 0) {
		return nil, fmt.Errorf("a %v has a digest if and only if it is a blob", p.Kind)
	}
	if !digested {
		p.Document = body
		if err := CheckText("document", string(body), 1, rules.MaxBytes); err != nil {
			return nil, err
		}
	} else if len(body) > 0 {
		return nil, fmt.Errorf("unexpected body of %d bytes", len(body))
	}
	return p, rules.Check(&p)
}

func decodeDeleteDocument(r *fieldReader) Command {
	return r.document(func(string, string) bool { return false })
}

// document reads the fields that a put and a delete have in common. other reads any other field, or reports false.
func (r *fieldReader) document(other func(key, raw string) bool) (d DeleteDocument) {
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "kind":
			for k := range DocumentKinds {
				if k.String() == raw {
					d.Kind = k
				}
			}
			if d.Kind == 0 {
				r.fail(fmt.Errorf("field %s=%s is no kind of documents", key, raw))
			}
		case "client":
			d.Client = r.name(key, raw)
		case "name":
			d.Name = r.name(key, raw)
		case "if":
			d.If = Condition(r.text(raw))
			if err := d.If.Check(); err != nil {
				r.fail(fmt.Errorf("field %s: %w", key, err))
			}
		case "author":
			d.By = r.bounded(key, raw, MaxByBytes)
		default:
			if !other(key, raw) {
				r.unknown(key)
			}
		}
	}
	if d.Kind == 0 || d.Name == "" {
		r.fail(fmt.Errorf("kind or name is missing"))
	}
	return d
}
