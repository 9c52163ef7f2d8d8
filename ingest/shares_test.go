package ingest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// TestSharesOfParkedClaims: a client has at most half of the waiting claims, and of the clients and types that they name.
func TestSharesOfParkedClaims(t *testing.T) {
	l := newLine()
	a, b := job.Owner{Client: "a", Shares: true}, job.Owner{Client: "b", Shares: true}
	testkit.NoError(t, l.places.Take(a, job.MaxParkedClaims/2-1, job.MaxParkedClaims))
	park := func(of job.Owner, types ...string) (*parkedClaim, error) {
		return l.park(l.enter(), of, &job.Claim{Clients: []string{of.Client}, Types: types, Max: 1})
	}
	last := testkit.Must(park(a, "x"))(t)
	testkit.Fails(park(a, "x"))(t, ErrTooManyParked, "client a")
	others := []*parkedClaim{testkit.Must(park(b, "x"))(t), testkit.Must(park(job.Owner{}, "x"))(t)}
	for _, p := range append(others, last) {
		l.leave(p)
	}
	l.leave(testkit.Must(park(a, "x"))(t))
	l.places.Return("a", job.MaxParkedClaims/2-1)
	testkit.Must(park(b, "x"))(t) // it takes a place
	testkit.NoError(t, l.interests.places.Take(b, maxPlaces/2-1, maxPlaces))
	testkit.Fails(park(b, "y"))(t, ErrTooManyParked, "client b")
	testkit.Must(park(b, "x"))(t)
	testkit.Must(park(a, "y"))(t)
}

// TestShares: once two clients have keys, requests of one get at most half of the runners, waiting claims and documents that are free.
// Keys for all clients, and requests without a key, are not limited.
func TestShares(t *testing.T) {
	dir := t.TempDir()
	e, stop := startWith(t, Options{Dir: dir, maxDocuments: 8, maxDocumentBytes: 800})
	as := map[string]context.Context{"nobody": t.Context(), "all": job.WithKey(t.Context(), &job.Key{Actor: job.Actor{Name: "all"}})}
	addKey := func(name string, clients ...string) {
		key := job.Key{Actor: job.Actor{Name: name, Scope: job.Scope{Clients: clients}}, RunnerPrefix: name + ".", Roles: job.RolesOf(job.RoleOperator), Generation: 1, Sum: job.KeySum{1}}
		testkit.Must2(e.PutDocument(t.Context(), job.PutDocument{Kind: job.KeyDocument, Name: name, Document: key.Document()}))(t)
		current(t, e)
		as[name] = job.WithKey(t.Context(), &key)
	}
	fileset := func(by, client, name string, version byte) error {
		_, _, err := e.PutDocument(as[by], job.PutDocument{Kind: job.FilesetDocument, Client: client, Name: name, Digest: job.DocumentDigest{version}, Summary: job.FilesetSummary(1, 1)})
		current(t, e)
		return err
	}
	handler := func(by, client, name string, bytes int) error {
		text := fmt.Sprintf(`{"kind":"http","url":"http://127.0.0.1:8080/%0*d"}`, bytes-len(`{"kind":"http","url":"http://127.0.0.1:8080/"}`), 0)
		_, _, err := e.PutDocument(as[by], job.PutDocument{Kind: job.HandlerDocument, Client: client, Name: name, Summary: "http", Document: []byte(text)})
		current(t, e)
		return err
	}
	claim := func(by, client string) error {
		ctx, cancel := context.WithTimeout(as[by], 20*time.Millisecond)
		defer cancel()
		_, _, _, err := e.ClaimAdmitted(ctx, job.Claim{Runner: by + ".r", Clients: []string{client}, Max: 1, LeaseMs: 1000}, 10*time.Millisecond, nil)
		return err
	}
	beat := func(by string, i int) error {
		_, _, err := e.Heartbeat(as[by], fmt.Sprint(by, ".", i), registry.Info{Instance: "i"}, false)
		return err
	}

	addKey("a", "a", "a2")
	for i := range 4 { // nobody else has a key
		testkit.NoError(t, fileset("a", []string{"a", "a2"}[i%2], fmt.Sprint("f", i), 1))
	}
	testkit.NoError(t, fileset("a", "a", "f5", 1))
	addKey("b", "b")
	testkit.Failed(t, fileset("a", "a2", "f6", 1), job.TooManyFilesets, "client a")
	testkit.NoError(t, fileset("a", "a", "f5", 2))
	testkit.NoError(t, fileset("b", "b", "f", 1))
	testkit.NoError(t, fileset("b", "b", "g", 1))
	testkit.Failed(t, fileset("b", "b", "h", 1), job.TooManyFilesets, "client b")
	testkit.NoError(t, fileset("all", "a", "h", 1))
	testkit.NoError(t, fileset("nobody", "", "i", 1))
	testkit.Must2(e.DeleteDocument(as["a"], job.DeleteDocument{Kind: job.FilesetDocument, Client: "a", Name: "f0"}))(t)
	current(t, e)

	testkit.NoError(t, handler("a", "a", "x", 300))
	testkit.Failed(t, handler("a", "a", "x", 301), job.TooManyHandlers, "client a")
	testkit.NoError(t, handler("b", "b", "x", 200))
	testkit.NoError(t, handler("all", "a", "y", 200))

	testkit.NoError(t, e.parked.places.Take(e.ownerOf(as["a"]), job.MaxParkedClaims/2, job.MaxParkedClaims))
	testkit.Failed(t, claim("a", "a"), ErrTooManyParked, "client a")
	testkit.NoError(t, claim("b", "b"))
	testkit.NoError(t, claim("all", "a"))
	e.parked.places.Return("a", job.MaxParkedClaims/2)

	for i := range registry.MaxAlive / 2 {
		testkit.NoError(t, beat("a", i))
	}
	testkit.Failed(t, beat("a", registry.MaxAlive), registry.ErrFull, "client a")
	testkit.NoError(t, beat("a", 0))
	testkit.NoError(t, beat("b", 0))
	testkit.NoError(t, beat("nobody", 0))

	use := func() (all []document.Use) {
		for kind := range job.DocumentKinds {
			for _, clients := range [][]string{nil, {"a"}, {"a2", "b"}} {
				own, total := e.store.DocumentUse(kind, clients)
				all = append(all, own, total)
			}
		}
		return all
	}
	before := fmt.Sprint(use())
	stop()
	e, _ = startWith(t, Options{Dir: dir})
	testkit.Equal(t, fmt.Sprint(use()), before, "after a restart")
}
