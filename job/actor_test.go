package job

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestActorFields: the actor of a record reads back, and the fields of the command stay.
func TestActorFields(t *testing.T) {
	for _, a := range []Actor{
		{}, {Name: "acme"}, {Name: "a b=c,%"}, {"w", Scope{[]string{"acme", "b"}, nil}}, {"w", Scope{nil, []string{"resize"}}}, {"w", Scope{[]string{"acme"}, []string{"a", "b"}}},
	} {
		for _, fields := range []string{"", "type=x", "by=x type=y"} {
			if a.Name == "" && strings.HasPrefix(fields, "by=") {
				continue // no command has a field by
			}
			text := AppendActor(&a, []byte(fields))
			got, rest, err := CutActor(text)
			if err != nil || !reflect.DeepEqual(got, a) || string(rest) != fields {
				t.Errorf("%s reads back as %+v, %q, %v", text, got, rest, err)
			}
		}
	}
	for _, wrong := range []string{
		"by=", "by=a ", "by=a  type=x", "by=%61", "by=a by_clients=", "by=a by_clients=b,a", "by=a by_clients=a,a", "by=a by_clients=..", "by=a by_types=a b=c by_clients=b" + strings.Repeat(",", 3),
		"by=" + strings.Repeat("x", MaxByBytes+1), "by=a by_types=" + strings.TrimSuffix(strings.Repeat("x,", MaxClaimNames+1), ","),
	} {
		a, rest, err := CutActor([]byte(wrong))
		if err == nil { // the fields of the command are then wrong
			_, err = Decode("stop", rest, nil)
		}
		if err == nil {
			t.Errorf("%q is taken for %+v and a command", wrong, a)
		}
	}
}

// TestScopePermits: a scope permits the commands about its clients and types, whatever their form, and no command that it does not know.
func TestScopePermits(t *testing.T) {
	s := Scope{[]string{"acme"}, []string{"mail", "resize"}}
	group := func(client, typ string) []Group {
		return []Group{{Lines: 1, Client: "acme", Type: "mail"}, {Lines: 1, Client: client, Type: typ}}
	}
	next := func(client, typ string) FollowOn {
		return mustFollowOn(&Group{Client: client, Type: typ, Attributes: Attributes{MaxAttempts: 1, LeaseMs: 1000}}, 0)
	}
	follow := func(client, typ string) []Group {
		return []Group{{Lines: 1, Client: "acme", Type: "mail", Attributes: Attributes{OnComplete: next(client, typ)}}}
	}
	then := func(client, typ string) *Create { return &Create{Groups: group(client, typ)} }
	for i, test := range []struct {
		cmd  Command
		want error
	}{
		{&Create{Groups: group("acme", "resize")}, nil},
		{&Create{Groups: group("other", "resize")}, ErrOutOfScope},
		{&Create{Groups: group("acme", "other")}, ErrOutOfScope},
		{&Create{Groups: group("", "resize")}, ErrOutOfScope},
		{&Create{Groups: follow("", "resize")}, nil},
		{&Create{Groups: follow("acme", "resize")}, nil},
		{&Create{Groups: follow("other", "resize")}, ErrOutOfScope},
		{&Create{Groups: follow("", "other")}, ErrOutOfScope},
		{Complete{All: &Outcome{Then: then("", "mail")}}, nil},
		{Complete{All: &Outcome{Then: then("other", "mail")}}, ErrOutOfScope},
		{Complete{Outcomes: []Outcome{{}, {Then: then("acme", "other")}}}, ErrOutOfScope},
		{Complete{Outcomes: []Outcome{{}, {Then: then("acme", "mail")}}}, nil},
		{Claim{Clients: []string{"acme"}, Types: []string{"mail"}}, nil},
		{Claim{}, ErrOutOfScope},
		{Claim{Clients: []string{"acme"}}, ErrOutOfScope},
		{Claim{Clients: []string{"acme", "other"}, Types: []string{"mail"}}, ErrOutOfScope},
		{Move{Client: "acme", Type: "mail"}, nil},
		{Move{Client: "other", Type: "mail"}, QueueNotFound},
		{Move{Job: ID{1}, Client: "other"}, nil}, // Apply knows whose it is
		{Pause{Client: "acme", Type: "other"}, QueueNotFound},
		{DeleteQueue{Client: "acme", Type: "other"}, QueueNotFound},
		{DeleteQueue{Client: "acme", Type: "mail"}, nil},
		{PutDocument{Kind: HandlerDocument, Client: "acme", Name: "mail"}, nil},
		{PutDocument{Kind: HandlerDocument, Client: "", Name: "mail"}, ErrOutOfScope},
		{PutDocument{Kind: HandlerDocument, Client: "acme", Name: "other"}, ErrOutOfScope},
		{PutDocument{Kind: FilesetDocument, Client: "acme", Name: "other"}, nil},
		{DeleteDocument{Kind: FilesetDocument, Client: "other", Name: "mail"}, ErrOutOfScope},
		{PutDocument{Kind: KeyDocument, Name: "k"}, ErrOutOfScope},
		{DeleteDocument{Kind: KeyDocument, Name: "k"}, ErrOutOfScope},
		{Tickle{}, nil}, {Patch{}, nil}, {ChangeBatch{}, nil}, {OpenSession{}, nil}, {EndSession{}, nil},
		{Switch{}, ErrOutOfScope}, {Tick{}, ErrOutOfScope}, {Grace{}, ErrOutOfScope}, {SetLevel{}, ErrOutOfScope}, {SetHistory{}, ErrOutOfScope}, {DeleteIdleQueues{}, ErrOutOfScope}, {LoseRunner{}, ErrOutOfScope},
		{SetMember{}, ErrOutOfScope}, {Announce{}, ErrOutOfScope}, {Mark{}, ErrOutOfScope},
	} {
		if err := s.Permits(test.cmd); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%d: %s %+v: %v, want %v", i, test.cmd.Verb(), test.cmd, err, test.want)
		}
		if err := (&Scope{}).Permits(test.cmd); err != nil {
			t.Errorf("%d: a scope with everything: %v", i, err)
		}
	}
	for verb, cmd := range commands() { // each command is decided
		if err := (&Scope{Clients: []string{"nobody"}}).Permits(cmd); err != nil && !errors.Is(err, ErrOutOfScope) && !errors.Is(err, QueueNotFound) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestScopeNarrow(t *testing.T) {
	s := Scope{[]string{"a", "b"}, []string{"x"}}
	for _, test := range []struct {
		clients, types, wantClients, wantTypes []string
		out                                    bool
	}{
		{nil, nil, s.Clients, s.Types, false}, {[]string{"b"}, nil, []string{"b"}, s.Types, false}, {nil, []string{"x"}, s.Clients, []string{"x"}, false},
		{[]string{"b", "c"}, nil, nil, nil, true}, {nil, []string{"y"}, nil, nil, true},
	} {
		c := Claim{Clients: test.clients, Types: test.types}
		err := s.Narrow(&c)
		if errors.Is(err, ErrOutOfScope) != test.out || !test.out && (err != nil || !reflect.DeepEqual(c.Clients, test.wantClients) || !reflect.DeepEqual(c.Types, test.wantTypes)) {
			t.Errorf("%v %v: %+v, %v", test.clients, test.types, c, err)
		}
	}
}

// TestKeyPermitsRunner: a key names only runners with its prefix, in every command that names one.
func TestKeyPermitsRunner(t *testing.T) {
	k := &Key{Actor: Actor{Name: "k"}, RunnerPrefix: "acme-"}
	for _, cmd := range []Command{Claim{Runner: "other"}, Tickle{Runner: "acme"}, Complete{Runner: "b-acme-1"}, OpenSession{Runner: "x"}, Claim{Runner: "acme-"}} {
		if err := k.Permits(cmd); !errors.Is(err, ErrOutOfScope) {
			t.Errorf("%+v: %v", cmd, err)
		}
	}
	for _, cmd := range []Command{Claim{Runner: "acme-1"}, Tickle{}, Complete{Runner: "acme-acme"}, OpenSession{}} {
		if err := k.Permits(cmd); err != nil {
			t.Errorf("%+v: %v", cmd, err)
		}
	}
	for name, cmd := range commands() { // no other command of a request has a field Runner
		v := reflect.ValueOf(cmd)
		if v.Kind() == reflect.Pointer || !v.FieldByName("Runner").IsValid() {
			continue
		}
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		c.FieldByName("Runner").SetString("other")
		if err := k.Permits(c.Interface().(Command)); err == nil && cmd.Verb() != (LoseRunner{}).Verb() { // LoseRunner is a command of the server
			t.Errorf("%s names any runner", name)
		}
	}
}
