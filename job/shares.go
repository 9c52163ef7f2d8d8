package job

import (
	"context"
	"errors"
	"fmt"
)

// Once two clients have keys, each gets at most half of what is free of every bound of the server. So no client can take all of it,
// whatever the others do: after it has taken its share, as much is left for them.

// Owner says for whom something is taken of what a bound permits. The zero value has no limit but the bound.
type Owner struct {
	Client string // Scope.Owner of the key
	Shares bool   // other clients have keys, too
}

// OwnerOf returns for whom a request with the key of a context takes something. clients returns how many clients have keys.
func OwnerOf(ctx context.Context, clients func() int) Owner {
	return OwnerNamed(KeyOf(ctx).By().Owner(), clients)
}

// OwnerNamed is OwnerOf for the name of an owner, which Scope.Owner has returned.
func OwnerNamed(client string, clients func() int) Owner {
	return Owner{client, client != "" && clients() > 1}
}

// MayTake returns an error if an owner that has own of something may not have n more: ErrFull if all clients together would have more
// than most, or an *OverShare.
func (o Owner) MayTake(own, all, n, most int64) error {
	switch {
	case all+n > most:
		return ErrFull
	case o.Shares && own+n > most-all:
		return &OverShare{o.Client}
	}
	return nil
}

// ErrFull: all that a bound permits is taken.
var ErrFull = errors.New("all are taken")

// OverShare is the refusal of a client that has its share of something.
type OverShare struct{ Client string }

func (o *OverShare) Error() string {
	return fmt.Sprintf("client %s has as many as are left for all clients", o.Client)
}

// Shares counts who has how much of something bounded. The caller holds a lock.
type Shares struct {
	all int64
	of  map[string]int64 // by client; no zeros
}

// Take takes n for an owner, or returns an error of MayTake.
func (s *Shares) Take(o Owner, n, most int64) error {
	if err := o.MayTake(s.of[o.Client], s.all, n, most); err != nil {
		return err
	}
	s.add(o.Client, n)
	return nil
}

// Return gives back what a client has taken; "": what was taken for nobody in particular.
func (s *Shares) Return(client string, n int64) { s.add(client, -n) }

// All returns how much is taken.
func (s *Shares) All() int64 { return s.all }

func (s *Shares) add(client string, n int64) {
	s.all += n
	if client == "" {
		return
	}
	if s.of == nil {
		s.of = map[string]int64{}
	}
	if s.of[client] += n; s.of[client] == 0 {
		delete(s.of, client)
	}
}

// Limited returns the error of a limit that was reached by everybody, or that says whose share is reached.
func Limited(limit, err error) error {
	if over, ok := errors.AsType[*OverShare](err); ok {
		return fmt.Errorf("%w: %w", limit, over)
	}
	return limit
}
