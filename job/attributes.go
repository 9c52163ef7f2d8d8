package job

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Group is a range of consecutive lines of a batch with equal attributes.
type Group struct {
	Lines        int
	Client, Type string
	Attributes
}

// Attributes are the settings that a create gives to all jobs of a group. This file converts them to the
// fields of a command, the row of a batch, and the document of a job. CONTRIBUTING.md has the other places.
type Attributes struct {
	Kind        Kind
	Priority    int   // 0 … MaxPriority; the highest is handed out first
	RunAt       int64 // unix ms; 0: at once
	MaxAttempts int
	Backoff     Backoff
	LeaseMs     int64
	RetentionMs int64
	ExpiresAt   int64 // unix ms; a job not started by then is cancelled; 0: never
	TimeoutMs   int64 // the longest time a run may take; 0: as long as it is tickled
	Traceparent string
	Meta        Meta
	OnComplete  FollowOn // the job that is created when the job completes; empty: none
	Hops        int      // length of the chain of jobs that led to this one; set by the server from the creating job
	By          string   // the actor that created the jobs; "": unknown. In a command, only groups that share a record have it
}

// group writes the fields of a group in a command.
func (f *fields) group(g *Group) {
	f.text("client", g.Client)
	f.text("type", g.Type)
	f.text("kind", g.Kind.String())
	f.int("priority", int64(g.Priority))
	f.int("run_at", g.RunAt)
	f.int("max_attempts", int64(g.MaxAttempts))
	if g.Backoff != (Backoff{}) {
		f.key("backoff")
		*f = fmt.Appendf(*f, "%d:%d:%d", g.Backoff.InitialMs, g.Backoff.FactorMilli, g.Backoff.MaxMs)
	}
	f.int("lease_ms", g.LeaseMs)
	f.int("retention_ms", g.RetentionMs)
	f.int("expires_at", g.ExpiresAt)
	f.int("timeout_ms", g.TimeoutMs)
	f.text("traceparent", g.Traceparent)
	if g.Meta != "" { // it is in its text form already
		f.key("meta")
		*f = append(*f, g.Meta...)
	}
	f.text("on_complete", string(g.OnComplete))
	f.text("by", g.By)
}

// group reads one field of a group.
func (r *fieldReader) group(g *Group, key, raw string) {
	var err error
	switch key {
	case "client":
		g.Client = r.name(key, raw)
	case "type":
		g.Type = r.name(key, raw)
	case "kind":
		if g.Kind, err = ParseKind(key, raw); err != nil {
			r.fail(err)
		}
	case "priority":
		g.Priority = int(r.int(key, raw, 0, MaxPriority))
	case "run_at":
		g.RunAt = r.int(key, raw, 0, MaxTimeMs)
	case "max_attempts":
		g.MaxAttempts = int(r.int(key, raw, 1, MaxAttempts))
	case "backoff":
		parts := strings.Split(raw, ":")
		if len(parts) != 3 {
			r.fail(fmt.Errorf("field backoff=%s is not initial:factor:max", raw))
			return
		}
		g.Backoff.InitialMs = r.int(key, parts[0], 0, MaxDelayMs)
		g.Backoff.FactorMilli = r.int(key, parts[1], 1000, MaxFactorMilli)
		g.Backoff.MaxMs = r.int(key, parts[2], 0, MaxDelayMs)
	case "lease_ms":
		g.LeaseMs = r.int(key, raw, MinLeaseMs, MaxLeaseMs)
	case "retention_ms":
		g.RetentionMs = r.int(key, raw, 0, MaxDelayMs)
	case "expires_at":
		g.ExpiresAt = r.int(key, raw, 1, MaxTimeMs)
	case "timeout_ms":
		g.TimeoutMs = r.int(key, raw, MinTimeoutMs, MaxTimeoutMs)
	case "traceparent":
		g.Traceparent = raw
		if err := CheckTraceparent(raw); err != nil {
			r.fail(err)
		}
	case "meta":
		if g.Meta, err = ParseMeta(raw); err != nil {
			r.fail(err)
		}
	case "on_complete":
		g.OnComplete = FollowOn(r.text(raw))
		if _, _, err := g.OnComplete.Parse(); err != nil {
			r.fail(err)
		}
	case "by":
		g.By = r.bounded(key, raw, MaxByBytes)
	default:
		r.unknown(key)
	}
}

// AppendRow appends attributes in the form of a store row: varints in the order below, and texts preceded by their
// lengths. Most jobs neither create others nor were created by one, so the row includes hops and on_complete only if at
// least one is set. In the same way it includes the actor only if there is one. Bits of the kind mark these rows.
func (a *Attributes) AppendRow(b []byte) []byte {
	kind := uint64(a.Kind)
	chained := a.Hops != 0 || a.OnComplete != ""
	if chained {
		kind |= chainedBit
	}
	if a.By != "" {
		kind |= actorBit
	}
	b = binary.AppendUvarint(b, kind)
	b = binary.AppendUvarint(b, uint64(a.Priority))
	b = binary.AppendVarint(b, a.RunAt)
	b = binary.AppendUvarint(b, uint64(a.MaxAttempts))
	b = binary.AppendVarint(b, a.Backoff.InitialMs)
	b = binary.AppendVarint(b, a.Backoff.FactorMilli)
	b = binary.AppendVarint(b, a.Backoff.MaxMs)
	b = binary.AppendVarint(b, a.LeaseMs)
	b = binary.AppendVarint(b, a.RetentionMs)
	b = binary.AppendVarint(b, a.ExpiresAt)
	b = binary.AppendVarint(b, a.TimeoutMs)
	b = appendText(appendText(b, a.Traceparent), string(a.Meta))
	if chained {
		b = appendText(binary.AppendUvarint(b, uint64(a.Hops)), string(a.OnComplete))
	}
	if a.By != "" {
		b = appendText(b, a.By)
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// Bits in the kind of a row.
const (
	actorBit   = 1 << 5 // the row includes the actor
	chainedBit = 1 << 6 // the row includes hops and on_complete
)

// MinAttributesRow is the least number of bytes that AppendRow appends.
const MinAttributesRow = 13

// ErrShortRow is returned for a row that ends within attributes.
var ErrShortRow = errors.New("attributes are cut off")

// ParseRow reads the attributes that AppendRow wrote, and returns the rest of the row, or ErrShortRow if the row ends
// within the attributes. text must end with the bytes of row. The texts of the attributes share its memory, so the
// attributes of many groups need only one copy of their row.
func (a *Attributes) ParseRow(row []byte, text string) (rest []byte, err error) {
	r := rowReader{rest: row, all: text}
	kind := r.uint()
	a.Kind = Kind(kind &^ (chainedBit | actorBit))
	a.Priority = int(r.uint())
	a.RunAt = r.int()
	a.MaxAttempts = int(r.uint())
	a.Backoff = Backoff{InitialMs: r.int(), FactorMilli: r.int(), MaxMs: r.int()}
	a.LeaseMs = r.int()
	a.RetentionMs = r.int()
	a.ExpiresAt = r.int()
	a.TimeoutMs = r.int()
	a.Traceparent = r.text()
	a.Meta = Meta(r.text())
	if kind&chainedBit != 0 {
		a.Hops, a.OnComplete = int(r.uint()), FollowOn(r.text())
	}
	if kind&actorBit != 0 {
		a.By = r.text()
	}
	if r.short {
		return nil, ErrShortRow
	}
	return r.rest, nil
}

// CloneTexts copies the texts, so that they keep no other memory alive.
func (a *Attributes) CloneTexts() {
	a.Traceparent, a.Meta, a.OnComplete = strings.Clone(a.Traceparent), Meta(strings.Clone(string(a.Meta))), FollowOn(strings.Clone(string(a.OnComplete)))
	a.By = strings.Clone(a.By)
}

// Texts returns the number of bytes of the texts.
func (a *Attributes) Texts() int {
	return len(a.Traceparent) + len(a.Meta) + len(a.OnComplete) + len(a.By)
}

// rowReader reads varints and texts. Past the end of the row it sets short and returns zeros.
type rowReader struct {
	rest  []byte
	all   string // the row and everything before it; rest is its end
	short bool
}

func (r *rowReader) uint() uint64 {
	n, size := binary.Uvarint(r.rest)
	r.skip(size)
	return n
}

func (r *rowReader) int() int64 {
	n, size := binary.Varint(r.rest)
	r.skip(size)
	return n
}

func (r *rowReader) text() string {
	n := r.uint()
	if n > uint64(len(r.rest)) {
		r.short = true
		return ""
	}
	at := len(r.all) - len(r.rest)
	r.rest = r.rest[n:]
	return r.all[at : at+int(n)]
}

// skip passes over a varint of size bytes. A size of 0 or less means that the varint could not be read.
func (r *rowReader) skip(size int) {
	if size <= 0 {
		r.short = true
		return
	}
	r.rest = r.rest[size:]
}

// Document returns the part of a job's document that its attributes and state determine. The store adds the rest: client
// and type, ids, the creation time, and the fields that have their own rows (payload, keys, claim, details).
func (a *Attributes) Document(s *State) Job {
	doc := Job{
		Attributes: *a, Status: s.Status, Code: s.Code, ExitCode: int(s.ExitCode), Progress: -1,
		RunAttempts: int(s.Attempts), Redrives: int(s.Redrives), UpdatedAt: s.UpdatedAt, Why: s.Why,
	}
	doc.Priority, doc.MaxAttempts = s.PriorityIn(a), s.MaxAttemptsIn(a)
	if s.Code == Unget { // as if the job had not been claimed
		doc.Code = NoCode
	}
	switch {
	case s.Status == Deferred:
		doc.RunAt = s.At
	case s.Status.Terminal():
		doc.CompletedAt = s.At
	}
	return doc
}
