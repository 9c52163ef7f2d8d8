package job

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Scope is what a key is for: clients, and types of their jobs. Both lists are sorted, and nil means all.
type Scope struct{ Clients, Types []string }

// All reports whether the scope has all clients and types.
func (s *Scope) All() bool { return s.Clients == nil && s.Types == nil }

// HasClient reports whether the scope has a client with some types.
func (s *Scope) HasClient(client string) bool { return s.Clients == nil || contains(s.Clients, client) }

// HasType reports whether the scope has a type of some clients.
func (s *Scope) HasType(typ string) bool { return s.Types == nil || contains(s.Types, typ) }

// Has reports whether the scope has the jobs of a client and type.
func (s *Scope) Has(client, typ string) bool { return s.HasClient(client) && s.HasType(typ) }

func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

// Owner returns the client that owns the sessions, sweeps and idempotency keys of a key with this scope: the first one, or "" if
// the scope has all.
func (s *Scope) Owner() string {
	if len(s.Clients) == 0 {
		return ""
	}
	return s.Clients[0]
}

// Equal reports whether two scopes are equal.
func (s *Scope) Equal(other *Scope) bool {
	return (s.Clients == nil) == (other.Clients == nil) && slices.Equal(s.Clients, other.Clients) &&
		(s.Types == nil) == (other.Types == nil) && slices.Equal(s.Types, other.Types)
}

// CheckScopeNames returns an error unless a list can be a part of a scope: it is nil, or has 1 to MaxClaimNames different names
// in order. Claims list these names, so they have the same bound.
func CheckScopeNames(field string, names []string) error {
	switch {
	case names == nil:
		return nil
	case len(names) == 0:
		return fmt.Errorf("%s is empty; leave it out for all", field)
	case len(names) > MaxClaimNames:
		return fmt.Errorf("%s has %d names; the maximum is %d", field, len(names), MaxClaimNames)
	}
	for i, name := range names {
		if err := CheckName(field, name); err != nil {
			return err
		}
		if i > 0 && name <= names[i-1] {
			return fmt.Errorf("%s must have each name once, in order", field)
		}
	}
	return nil
}

// Actor is who sends a command: the name of a key, or of somebody whom an issuer of tokens knows, and its scope. Apply treats
// what is outside of the scope as if it did not exist. The zero Actor is the server itself, or anybody while there are no keys.
type Actor struct {
	Name string
	Scope
}

// actorKey begins the fields of a record that has an actor.
const actorKey = "by="

// AppendActor puts the fields of an actor before the fields of a command. The actor must have a name, or be zero.
func AppendActor(a *Actor, commandFields []byte) []byte {
	if a.Name == "" {
		return commandFields
	}
	f := make(fields, 0, len(commandFields)+usualFields)
	f.text("by", a.Name)
	f.texts("by_clients", a.Clients)
	f.texts("by_types", a.Types)
	if len(commandFields) > 0 {
		f = append(append(f, ' '), commandFields...)
	}
	return f
}

// CutActor returns the actor of a record, and the fields of its command. It accepts only what AppendActor writes.
func CutActor(text []byte) (a Actor, commandFields []byte, err error) {
	if !bytes.HasPrefix(text, []byte(actorKey)) {
		return Actor{}, text, nil
	}
	var r fieldReader
	rest := text
	for n := 0; ; n++ {
		pair, more, found := bytes.Cut(rest, []byte(" "))
		key, raw, _ := strings.Cut(string(pair), "=")
		switch {
		case n == 0:
			a.Name = r.bounded(key, raw, MaxByBytes)
		case key == "by_clients" && a.Clients == nil && a.Types == nil:
			a.Clients = r.scope(key, raw)
		case key == "by_types" && a.Types == nil:
			a.Types = r.scope(key, raw)
		default:
			return a, rest, r.err
		}
		if found && len(more) == 0 {
			r.fail(errors.New("fields end in a space"))
		}
		if rest = more; r.err != nil {
			return Actor{}, nil, fmt.Errorf("decode the actor of a command: %w", r.err)
		}
	}
}

// scope reads names of a scope.
func (r *fieldReader) scope(key, raw string) []string {
	names := r.names(key, raw)
	if err := CheckScopeNames(key, names); err != nil {
		r.fail(err)
	}
	return names
}

// DecodeRecord decodes the actor and the command of a record.
func DecodeRecord(verb string, fieldText, body []byte) (Actor, Command, error) {
	a, rest, err := CutActor(fieldText)
	if err != nil {
		return Actor{}, nil, err
	}
	cmd, err := Decode(verb, rest, body)
	return a, cmd, err
}

// ErrOutOfScope: a command names a client, a type or a runner that the key of the request is not for.
var ErrOutOfScope = errors.New("the key of this request is not for")

// outOfScope returns an ErrOutOfScope with what it is about.
func outOfScope(what, name string) error {
	if name == "" {
		return fmt.Errorf("%w %s", ErrOutOfScope, what)
	}
	return fmt.Errorf("%w %s %s", ErrOutOfScope, what, name)
}

// Permits returns an ErrOutOfScope if a command names something outside of the scope, QueueNotFound if it is about the queue,
// and nil otherwise. A command that this function does not know is permitted only to a scope with everything. Apply checks the
// ids that a command names, because it knows whose they are.
func (s *Scope) Permits(cmd Command) error {
	if s.All() {
		return nil
	}
	switch c := cmd.(type) {
	case *Create:
		return s.permitsGroups(c.Groups, false)
	case Claim:
		if !subset(s.Clients, c.Clients) || !subset(s.Types, c.Types) {
			return outOfScope("all clients and types of the claim", "")
		}
	case Complete:
		if c.All != nil && c.All.Then != nil {
			if err := s.permitsGroups(c.All.Then.Groups, true); err != nil {
				return err
			}
		}
		for i := range c.Outcomes {
			if then := c.Outcomes[i].Then; then != nil {
				if err := s.permitsGroups(then.Groups, true); err != nil {
					return err
				}
			}
		}
	case Move:
		if c.Job.IsZero() && c.Batch.IsZero() {
			return s.permitsQueue(c.Client, c.Type)
		}
	case Pause:
		return s.permitsQueue(c.Client, c.Type)
	case DeleteQueue:
		return s.permitsQueue(c.Client, c.Type)
	case PutDocument:
		return s.permitsDocument(c.Kind, c.Client, c.Name)
	case DeleteDocument:
		return s.permitsDocument(c.Kind, c.Client, c.Name)
	case Tickle, Patch, ChangeBatch, OpenSession, EndSession: // they name ids only
	default:
		return outOfScope("the whole server", "")
	}
	return nil
}

// permitsGroups checks new jobs. Jobs that a job creates can inherit its client.
func (s *Scope) permitsGroups(groups []Group, inherits bool) error {
	for i := range groups {
		g := &groups[i]
		if !s.HasClient(g.Client) && !(inherits && g.Client == "") {
			return outOfScope("client", g.Client)
		}
		if !s.HasType(g.Type) {
			return outOfScope("type", g.Type)
		}
		if g.OnComplete == "" {
			continue
		}
		next, _, err := g.OnComplete.Parse()
		if err == nil {
			err = s.permitsGroups([]Group{next}, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Scope) permitsQueue(client, typ string) error {
	if !s.Has(client, typ) {
		return QueueNotFound
	}
	return nil
}

// permitsDocument checks the change of a document. A handler has the name of its type. Those of no client are for all clients.
func (s *Scope) permitsDocument(kind DocumentKind, client, name string) error {
	if !s.HasClient(client) {
		if client == "" {
			return outOfScope("all clients", "")
		}
		return outOfScope("client", client)
	}
	if kind == HandlerDocument && !s.HasType(name) {
		return outOfScope("type", name)
	}
	return nil
}

// HasDocument reports whether the scope has a document. Documents of no client are for all clients. A quota is about all types of the
// client with its name.
func (s *Scope) HasDocument(kind DocumentKind, client, name string) bool {
	if kind == QuotaDocument {
		return s.HasClient(name) && s.Types == nil
	}
	return (client == "" || s.HasClient(client)) && (kind != HandlerDocument || s.HasType(name))
}

// subset reports whether some names are a part of all. The list of the names of a claim is empty if it is for all.
func subset(all, some []string) bool {
	if all == nil {
		return true
	}
	return len(some) > 0 && !slices.ContainsFunc(some, func(name string) bool { return !contains(all, name) })
}

// Narrow limits a claim to the scope: a list without names becomes the scope's. It returns an ErrOutOfScope if the claim
// names others.
func (s *Scope) Narrow(c *Claim) error {
	for _, list := range []struct {
		what  string
		of    []string
		names *[]string
	}{{"client", s.Clients, &c.Clients}, {"type", s.Types, &c.Types}} {
		if list.of == nil {
			continue
		}
		if len(*list.names) == 0 {
			*list.names = list.of
		}
		for _, name := range *list.names {
			if !contains(list.of, name) {
				return outOfScope(list.what, name)
			}
		}
	}
	return nil
}
