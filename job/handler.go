package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// HandlerDigest is the SHA-256 of a handler's document.
type HandlerDigest [sha256.Size]byte

// String returns the digest in the form sha256:hex.
func (d HandlerDigest) String() string { return digestPrefix + hex.EncodeToString(d[:]) }

// ParseHandlerDigest is the inverse of String.
func ParseHandlerDigest(text string) (HandlerDigest, error) { return parseDigest(text) }

const digestPrefix = "sha256:"

// parseDigest reads `sha256:` and 64 lower-case hexadecimal digits.
func parseDigest(text string) (d [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(text, digestPrefix)
	if n, bad := hex.Decode(d[:], []byte(digits[:min(len(digits), 2*len(d))])); !ok || bad != nil || n != len(d) || digestPrefix+hex.EncodeToString(d[:]) != text {
		return [sha256.Size]byte{}, fmt.Errorf("%q is not sha256: and 64 hexadecimal digits", text)
	}
	return d, nil
}

// PutHandler stores a version of a type's handler: the document that describes how runners run the jobs of the type.
// Apply does not read the document. If the newest version has the same document, nothing is stored.
type PutHandler struct {
	Client   string // whose jobs; "": the jobs of every client without a handler for the type
	Type     string
	Kind     string // of the handler, for lists
	Document []byte // JSON
}

// DeleteHandler deletes all versions of a handler.
type DeleteHandler struct{ Client, Type string }

func (PutHandler) Verb() string    { return "puthandler" }
func (DeleteHandler) Verb() string { return "deletehandler" }

func (p PutHandler) Encode() (fieldText, body []byte) {
	var f fields
	f.text("client", p.Client)
	f.text("type", p.Type)
	f.text("kind", p.Kind)
	return f, p.Document
}

func (d DeleteHandler) Encode() (fieldText, body []byte) {
	var f fields
	f.text("client", d.Client)
	f.text("type", d.Type)
	return f, nil
}

func decodePutHandler(r *fieldReader, body []byte) (Command, error) {
	p := PutHandler{Document: body}
	p.Client, p.Type = r.handler(&p.Kind)
	if p.Kind == "" {
		r.fail(fmt.Errorf("kind is missing"))
	}
	return p, CheckText("document", string(body), 1, MaxHandlerBytes)
}

func decodeDeleteHandler(r *fieldReader) Command {
	var d DeleteHandler
	d.Client, d.Type = r.handler(nil)
	return d
}

// handler reads the fields that name a handler: the type, and the client unless the handler is for all. If kind is not
// nil, the field kind is allowed and stored there.
func (r *fieldReader) handler(kind *string) (client, typ string) {
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch {
		case key == "client":
			client = r.name(key, raw)
		case key == "type":
			typ = r.name(key, raw)
		case key == "kind" && kind != nil:
			*kind = r.name(key, raw)
		default:
			r.unknown(key)
		}
	}
	if typ == "" {
		r.fail(fmt.Errorf("type is missing"))
	}
	return client, typ
}
