package client

import (
	"bytes"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/job/digest"
)

// Reference replaces a long payload or output, which is stored as a blob. Package chunks makes and reads references. The
// server keeps the blobs that references name, so a Codec does not encode references.
type Reference struct {
	Address *string `json:"chunk_addr"`
	Bytes   *int64  `json:"chunk_bytes"`
	Kind    *Kind   `json:"chunk_kind"`
}

// maxReferenceBytes bounds a reference: its three members, with room for white space.
const maxReferenceBytes = 512

// ParseReference reads a payload or output that is a reference: a JSON object with exactly its three members.
func ParseReference(kind Kind, content []byte) (r Reference, ok bool) {
	if kind != JSON || len(content) > maxReferenceBytes || !bytes.Contains(content, []byte(`"chunk_addr"`)) {
		return r, false
	}
	if json.Unmarshal(content, &r, json.RejectUnknownMembers(true)) != nil || r.Address == nil || r.Bytes == nil || r.Kind == nil {
		return r, false
	}
	ref, err := digest.Parse(*r.Address)
	isKind := *r.Kind == Text || *r.Kind == JSON || *r.Kind == Bytes
	return r, err == nil && ref.SHA256 != nil && ref.String() == *r.Address && *r.Bytes >= 0 && isKind
}
