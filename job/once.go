package job

import (
	"encoding/hex"
	"fmt"
)

// Once has a command take effect once, however often it is repeated within KeyLifeMs. Who sends it chooses a Key, which is looked up
// within a Scope; Digest tells the request itself, so that a key used again for another one is noticed. The zero Once is none.
type Once struct {
	Scope, Key string
	Digest     Digest
}

// Digest is the beginning of a cryptographic hash of a request.
type Digest [16]byte

// Given reports whether there is a key.
func (o *Once) Given() bool { return o.Key != "" }

func (f *fields) once(o *Once) {
	if o.Given() {
		f.text("scope", o.Scope)
		f.text("key", o.Key)
		f.text("digest", hex.EncodeToString(o.Digest[:]))
	}
}

// once reads one field of a Once, and reports whether key names one.
func (r *fieldReader) once(o *Once, key, raw string) bool {
	switch key {
	case "scope":
		o.Scope = r.bounded(key, raw, MaxScopeBytes)
	case "key":
		o.Key = r.bounded(key, raw, MaxKeyBytes)
	case "digest":
		digest, err := hex.DecodeString(raw)
		if err != nil || len(digest) != len(o.Digest) || hex.EncodeToString(digest) != raw {
			r.fail(fmt.Errorf("field digest=%s is not a digest", raw))
			return true
		}
		copy(o.Digest[:], digest)
	default:
		return false
	}
	return true
}

// whole fails when only a part of it was there.
func (r *fieldReader) whole(o *Once) {
	if none := o.Scope == "" && o.Key == "" && o.Digest == (Digest{}); !none && (o.Scope == "" || o.Key == "") {
		r.fail(fmt.Errorf("scope, key and digest go together"))
	}
}
