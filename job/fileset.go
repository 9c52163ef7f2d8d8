package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// ManifestDigest is the SHA-256 of a fileset's manifest, which is a blob.
type ManifestDigest [sha256.Size]byte

// String returns the address of the manifest in the form sha256:hex.
func (d ManifestDigest) String() string { return digestPrefix + hex.EncodeToString(d[:]) }

// ParseManifestDigest is the inverse of String.
func ParseManifestDigest(text string) (ManifestDigest, error) { return parseDigest(text) }

// PutFileset stores a version of a fileset: the address of its manifest. If the newest version has the same address,
// nothing is stored. Apply does not read the manifest. The sender of the command must have stored the manifest, and the
// blobs that it names, before.
type PutFileset struct {
	Client   string // the owner; "": the fileset belongs to no client
	Name     string
	Manifest ManifestDigest
	Files    int   // in the manifest, for lists
	Bytes    int64 // of all files, for lists
}

// DeleteFileset deletes all versions of a fileset.
type DeleteFileset struct{ Client, Name string }

func (PutFileset) Verb() string    { return "putfileset" }
func (DeleteFileset) Verb() string { return "deletefileset" }

func (p PutFileset) Encode() (fieldText, body []byte) {
	var f fields
	f.text("client", p.Client)
	f.text("name", p.Name)
	f.text("manifest", p.Manifest.String())
	f.int("files", int64(p.Files))
	f.int("bytes", p.Bytes)
	return f, nil
}

func (d DeleteFileset) Encode() (fieldText, body []byte) {
	var f fields
	f.text("client", d.Client)
	f.text("name", d.Name)
	return f, nil
}

func decodePutFileset(r *fieldReader) Command {
	var p PutFileset
	named := false
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "client":
			p.Client = r.name(key, raw)
		case "name":
			p.Name = r.name(key, raw)
		case "manifest":
			var err error
			if p.Manifest, err = ParseManifestDigest(raw); err != nil {
				r.fail(fmt.Errorf("field %s: %w", key, err))
			}
			named = true
		case "files":
			p.Files = int(r.int(key, raw, 1, MaxFilesetFiles))
		case "bytes":
			p.Bytes = r.int(key, raw, 1, MaxFilesetBytes)
		default:
			r.unknown(key)
		}
	}
	if p.Name == "" || !named {
		r.fail(fmt.Errorf("name or manifest is missing"))
	}
	return p
}

func decodeDeleteFileset(r *fieldReader) Command {
	var d DeleteFileset
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "client":
			d.Client = r.name(key, raw)
		case "name":
			d.Name = r.name(key, raw)
		default:
			r.unknown(key)
		}
	}
	if d.Name == "" {
		r.fail(fmt.Errorf("name is missing"))
	}
	return d
}
