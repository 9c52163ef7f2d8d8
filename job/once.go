package job

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Once identifies the request that a command carries out, so that a repeated request gets the first answer. It is either
// a key or a number of a session. With the zero Once, the command is carried out each time.
//
//   - A Key is looked up within a Scope, for KeyLifeMs. Each key is a row.
//   - A Number belongs to a Slot of a Session. A slot remembers only its last request: a higher number replaces it, and a
//     lower number is refused. A client uses a different slot for each request in progress, and counts up the numbers of
//     a slot. So a session remembers exactly the requests whose answers may still be missing.
//
// Digest identifies the content of the request, so that the server notices a key or number that is reused for another
// request.
//
// Several commands may carry out one request. They have the same Once except for Part: its completions are parts 0, 1, …;
// its create or claim comes last, without a part.
type Once struct {
	Scope, Key string

	Session ID
	Slot    int    // 0 … MaxSlots-1
	Number  uint64 // 1 … MaxNumber

	Part   int // of a completion: 0 … MaxParts-1
	Digest Digest
}

// Digest is the beginning of a cryptographic hash of a request.
type Digest [16]byte

// Given reports whether o has a key or a number.
func (o *Once) Given() bool { return o.Key != "" || o.Number != 0 }

// Numbered reports whether o has a number of a session.
func (o *Once) Numbered() bool { return o.Number != 0 }

func (f *fields) once(o *Once) {
	if !o.Given() {
		return
	}
	f.text("scope", o.Scope)
	f.text("key", o.Key)
	f.id("session", o.Session)
	f.int("slot", int64(o.Slot))
	f.int("number", int64(o.Number))
	f.int("part", int64(o.Part))
	f.text("digest", hex.EncodeToString(o.Digest[:]))
}

// once reads one field of a Once, and reports whether key is the name of such a field.
func (r *fieldReader) once(o *Once, key, raw string) bool {
	switch key {
	case "scope":
		o.Scope = r.bounded(key, raw, MaxScopeBytes)
	case "key":
		o.Key = r.bounded(key, raw, MaxKeyBytes)
	case "session":
		o.Session = r.id(raw)
	case "slot":
		o.Slot = int(r.int(key, raw, 1, MaxSlots-1))
	case "number":
		o.Number = uint64(r.int(key, raw, 1, MaxNumber))
	case "part":
		o.Part = int(r.int(key, raw, 1, MaxParts-1))
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

// whole fails if a Once is incomplete, or has both a key and a number.
func (r *fieldReader) whole(o *Once) {
	if *o == (Once{}) {
		return
	}
	keyed := o.Scope != "" && o.Key != ""
	numbered := !o.Session.IsZero() && o.Number != 0
	switch {
	case keyed == numbered, keyed && (!o.Session.IsZero() || o.Slot != 0 || o.Number != 0), numbered && (o.Scope != "" || o.Key != ""):
		r.fail(fmt.Errorf("scope, key and digest go together, and so do session, slot, number and digest"))
	}
}

// withoutPart fails if a Once has a part, which only a completion may have.
func (r *fieldReader) withoutPart(o *Once) {
	if o.Part != 0 {
		r.fail(fmt.Errorf("field part=%d goes only with a completion", o.Part))
	}
}

// Owner returns the owner of the key: that of everything of whoever sends it, or else the client or runner that follows the kind of
// request in the scope. The room for keys is shared among owners.
func (o *Once) Owner(by *Scope) string {
	if owner := by.Owner(); owner != "" {
		return owner
	}
	return OwnerInScope(o.Scope)
}

// OwnerInScope returns the client or runner in the scope of a key.
func OwnerInScope(scope string) string {
	if _, owner, ok := strings.Cut(scope, " "); ok {
		return owner
	}
	return scope
}
