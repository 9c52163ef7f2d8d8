package job

import (
	"context"
	"errors"
	"testing"
)

// TestShares: a client takes at most half of what is free once others have keys, and whoever has no client takes all.
func TestShares(t *testing.T) {
	var s Shares
	take := func(o Owner, most int64) (n int64) {
		for s.Take(o, 1, most) == nil {
			n++
		}
		return n
	}
	a, b := Owner{"a", true}, Owner{"b", true}
	for i, want := range []int64{50, 25, 0} {
		if n := take([]Owner{a, b, a}[i], 100); n != want {
			t.Errorf("%d: took %d, want %d", i, n, want)
		}
	}
	var over *OverShare
	if err := s.Take(b, 1, 100); !errors.As(err, &over) || over.Client != "b" {
		t.Error(err)
	}
	if n := take(Owner{}, 100); n != 25 {
		t.Error("without a client:", n)
	}
	if err := s.Take(Owner{"c", true}, 1, 100); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	s.Return("a", 50)
	s.Return("b", 25)
	s.Return("", 25)
	if s.All() != 0 || len(s.of) != 0 {
		t.Error(s)
	}
	if n := take(Owner{Client: "a"}, 100); n != 100 {
		t.Error("no other client has keys:", n)
	}
	key := &Key{Actor: Actor{Name: "k", Scope: Scope{Clients: []string{"a", "b"}}}}
	for clients, want := range map[int]Owner{1: {Client: "a"}, 2: {"a", true}} {
		if got := OwnerOf(WithKey(context.Background(), key), func() int { return clients }); got != want {
			t.Error(clients, got)
		}
	}
	if got := OwnerOf(context.Background(), nil); got != (Owner{}) {
		t.Error(got)
	}
}
