package job

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Group is a run of consecutive lines of a batch with equal attributes.
type Group struct {
	Lines        int
	Client, Type string
	Kind         Kind
	Priority     int   // 0 … MaxPriority, the highest first
	RunAt        int64 // unix ms; 0: at once
	MaxAttempts  int
	Backoff      Backoff
	LeaseMs      int64
	RetentionMs  int64
}

// Create makes a batch of jobs: the lines of its groups, in their order, with their payloads in one framed body.
//
// A bulk post has one group, and its attributes stand in the record's header:
//
//	n=2 frame=line longest=13 client=acme type=resize kind=text priority=4 max_attempts=3 backoff=1000:2000:3600000 lease_ms=300000 retention_ms=1209600000
//
// With more, the header says `groups=k` instead, and the body begins with k such lines (`n=… client=…`).
type Create struct {
	Groups []Group
	Frame  Frame
	// Longest is the length of the longest payload, so that a claim knows without looking that many fit.
	Longest  int
	Payloads []byte // framed
}

// Lines returns the number of jobs.
func (c *Create) Lines() int {
	n := 0
	for i := range c.Groups {
		n += c.Groups[i].Lines
	}
	return n
}

func (*Create) Verb() string { return "create" }

func (c *Create) Encode() (fieldText, body []byte) {
	var f fields
	f.int("n", int64(c.Lines()))
	f.text("frame", c.Frame.String())
	f.int("longest", int64(c.Longest))
	if len(c.Groups) == 1 {
		f.group(&c.Groups[0])
		return f, c.Payloads
	}
	f.int("groups", int64(len(c.Groups)))
	for i := range c.Groups {
		line := fields(body)
		line = append(line, "n="...)
		line = strconv.AppendInt(line, int64(c.Groups[i].Lines), 10)
		line.group(&c.Groups[i])
		body = append(line, '\n')
	}
	return f, append(body, c.Payloads...)
}

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
}

// group reads one attribute of a group.
func (r *fieldReader) group(g *Group, key, raw string) {
	var err error
	switch key {
	case "client":
		g.Client = r.name(key, raw)
	case "type":
		g.Type = r.name(key, raw)
	case "kind":
		if g.Kind, err = parseName[Kind](key, raw, kindNames[:]); err != nil {
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
	default:
		r.unknown(key)
	}
}

func decodeCreate(r *fieldReader, body []byte) (Command, error) {
	c := &Create{Groups: make([]Group, 1)}
	first := &c.Groups[0]
	n, groups := 0, 0
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "n":
			n = int(r.int(key, raw, 1, MaxLines))
		case "frame":
			frame, err := parseName[Frame](key, raw, frameNames[:])
			if err != nil {
				r.fail(err)
			}
			c.Frame = frame
		case "longest":
			c.Longest = int(r.int(key, raw, 0, MaxPayloadBytes))
		case "groups":
			groups = int(r.int(key, raw, 2, MaxGroups))
		default:
			r.group(first, key, raw)
		}
	}
	first.Lines = n
	if groups > 0 {
		if *first != (Group{Lines: n}) {
			return nil, fmt.Errorf("attributes beside groups=%d", groups)
		}
		c.Groups = make([]Group, groups)
		for i := range c.Groups {
			line, rest, ok := bytes.Cut(body, []byte("\n"))
			if !ok {
				return nil, fmt.Errorf("group %d is missing", i)
			}
			body = rest
			g := fieldReader{rest: string(line)}
			for key, raw, ok := g.next(); ok; key, raw, ok = g.next() {
				if key == "n" {
					c.Groups[i].Lines = int(g.int(key, raw, 1, MaxLines))
				} else {
					g.group(&c.Groups[i], key, raw)
				}
			}
			if g.err != nil {
				return nil, fmt.Errorf("group %d: %w", i, g.err)
			}
		}
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if g.Lines == 0 || g.Client == "" || g.Type == "" || g.MaxAttempts == 0 || g.LeaseMs == 0 {
			return nil, fmt.Errorf("group %d: n, client, type, max_attempts or lease_ms is missing", i)
		}
	}
	if r.err == nil && (n == 0 || c.Lines() != n) {
		return nil, fmt.Errorf("n=%d, and the groups have %d lines", n, c.Lines())
	}
	if c.Frame == NoFrame && len(body) > 0 {
		return nil, fmt.Errorf("payloads without a frame")
	}
	c.Payloads = body
	return c, nil
}

// CheckPayloads walks the framed body, so that a create which does not hold what it says is refused before it is journaled.
// Bodies that TrimLines made need no check.
func (c *Create) CheckPayloads() error {
	body, longest := c.Payloads, 0
	for i := range c.Lines() {
		payload, rest, err := c.Frame.Next(body)
		if err != nil {
			return fmt.Errorf("payload %d: %w", i, err)
		}
		longest = max(longest, len(payload))
		body = rest
	}
	if len(body) > 0 {
		return fmt.Errorf("%d bytes follow the last payload", len(body))
	}
	if longest != c.Longest {
		return fmt.Errorf("longest payload has %d bytes, not %d", longest, c.Longest)
	}
	return nil
}
