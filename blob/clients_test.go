package blob

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

func mustPutIn(t testing.TB, s *Store, client, content string) Info {
	t.Helper()
	info := testkit.Must(s.Put(context.Background(), client, strings.NewReader(content), Ref{}))(t)
	testkit.MustEqual(t, info.Address, addressOf(content), "Put:", info)
	return info
}

// sees reports whether a client finds a blob. It tries every method that can find one.
func sees(t testing.TB, s *Store, client, content string) bool {
	t.Helper()
	a := addressOf(content)
	_, statErr := s.Stat(t.Context(), client, a)
	b, getErr := s.Get(t.Context(), client, a)
	if getErr == nil {
		got := make([]byte, len(content))
		testkit.Must(b.ReadAt(got, 0))(t)
		testkit.Holds(t, string(got) == content, "read", got)
		testkit.Check(t, b.Close())
	}
	missing, err := s.Missing(t.Context(), client, []Address{a})
	testkit.Holds(t, err == nil && (statErr == nil) == (getErr == nil) && (getErr == nil) == (len(missing) == 0),
		"Stat returned", statErr, "Get", getErr, "Missing", missing, err)
	if statErr != nil {
		testkit.Failed(t, statErr, ErrNotFound)
		testkit.Failed(t, getErr, ErrNotFound)
	}
	return statErr == nil
}

// TestDamageOfClient: a damaged blob of a client is an error, even if the client could read an equal shared blob.
func TestDamageOfClient(t *testing.T) {
	s := newStore(t, Options{})
	mustPutIn(t, s, "", wilson)
	own := mustPutIn(t, s, "ann", wilson)
	path := s.local().path(blobKey("ann", own.Address))
	testkit.NoError(t, os.WriteFile(path, make([]byte, len(wilson)), 0o600))
	b, err := s.Get(t.Context(), "ann", own.Address)
	testkit.NoError(t, err)
	mustBeDamaged(t, b.Verify(), path)
	entry := s.local().path(sha1Key("ann", own.SHA1))
	testkit.NoError(t, errors.Join(b.Close(), os.WriteFile(entry, nil, 0o600)))
	_, err = s.Resolve(t.Context(), "ann", Ref{SHA1: &own.SHA1})
	mustBeDamaged(t, err, entry)
}

// TestClientNames: names are exactly those that jobs allow. Other names cannot reach a directory.
func TestClientNames(t *testing.T) {
	c := newStore(t, Options{})
	names := []string{"a", ".", "..", "...", ".a", "a/b", "../x", "a\x00b", "a b", "ä", "-", "_", "a:b", "\n", strings.Repeat("n", 128), strings.Repeat("n", 129), "clients"}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		b := make([]byte, 1+rng.IntN(4))
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		names = append(names, string(b))
	}
	for _, name := range names {
		_, err := c.Stat(t.Context(), name, Address{})
		want := job.CheckName("client", name)
		testkit.Holds(t, (want == nil) == errors.Is(err, ErrNotFound) && (want == nil || errors.Is(err, ErrClient)), name, err, "but for jobs", want)
	}
	testkit.Equal(t, maxClientName, job.MaxNameBytes, "the longest name")
}

// TestClientDirectories: only a call that stores something makes a directory, the number of directories is bounded, and
// a sweep removes an empty one unless it is in use.
func TestClientDirectories(t *testing.T) {
	clock := &clock{time.Unix(1_700_000_000, 0)}
	o := Options{Hooks: Hooks{Now: clock.now}}
	c := newStore(t, o)
	c.maxClients = 2
	sweep := func() {
		t.Helper()
		for _, client := range append(c.Clients(), "") {
			testkit.Must(c.Sweep(t.Context(), client, nobody))(t)
		}
	}
	mustHave := func(clients, folders string) {
		t.Helper()
		var got []string
		entries, err := os.ReadDir(filepath.Join(c.dir, "clients"))
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if ignoreMissing(err) != nil || !slices.Equal(got, strings.Fields(folders)) || !slices.Equal(c.Clients(), strings.Fields(clients)) {
			t.Errorf("there are %v, and Clients returns %v; want %v and %v; %v", got, c.Clients(), folders, clients, err)
		}
	}
	testkit.Holds(t, !sees(t, c, "ann", wilson) && c.UsedBy("ann") == 0, "there is something")
	infos, err := c.List(t.Context(), "ann", nil, 1)
	testkit.Holds(t, len(infos) == 0 && err == nil, infos, err)
	testkit.Fails(c.List(t.Context(), "ann", nil, 0))(t)
	testkit.Failed(t, c.Delete(t.Context(), "ann", addressOf(wilson)), ErrNotFound)
	sweep()
	mustHave("", "")

	mustPutIn(t, c, "ann", "ann")
	b := testkit.Must(c.NewBatch(t.Context(), "bob"))(t)
	testkit.Fails(c.Put(t.Context(), "cal", strings.NewReader("cal"), Ref{}))(t, ErrClients)
	testkit.Fails(c.NewBatch(t.Context(), "cal"))(t, ErrClients)
	testkit.Fails(c.NewUpload(t.Context(), "cal", 1, Ref{}))(t, ErrClients)
	testkit.Holds(t, !sees(t, c, "cal", "ann"), "cal sees a blob of ann")
	clock.at = clock.at.Add(2 * defaultGrace)
	sweep()
	mustHave("bob", "") // ann is empty; the batch of bob has not ended
	testkit.Check(t, b.Discard())
	u := testkit.Must(c.NewUpload(t.Context(), "bob", 1, Ref{}))(t)
	mustPutIn(t, c, "ann", "ann again")
	sweep()
	mustHave("ann bob", "ann")
	testkit.Check(t, u.Remove(t.Context()))
	mustPutIn(t, c, "bob", "") // an empty blob is a blob, too
	sweep()
	mustHave("ann bob", "ann bob")
	testkit.Check(t, c.Delete(t.Context(), "bob", addressOf("")))
	sweep()
	mustHave("ann", "ann")
	c = reopen(t, c, o)
	mustHave("ann", "ann")
	testkit.NoError(t, os.Mkdir(filepath.Join(c.dir, "clients", "not a client"), 0o700))
	c = reopen(t, c, o)
	testkit.EqualSlices(t, c.Clients(), []string{"ann"}, "the clients")
	testkit.Fails(OpenDir(t.Context(), c.dir, o))(t, filelock.ErrLocked)
	testkit.Fails(OpenDir(t.Context(), t.TempDir(), Options{ClientBytes: -1}))(t)
}

// TestClientsAtOnce: clients put and delete blobs while sweeps remove the directories of clients without blobs.
func TestClientsAtOnce(t *testing.T) {
	c := newStore(t, Options{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var users, sweeper sync.WaitGroup
	stop := make(chan struct{})
	sweeper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, client := range append(c.Clients(), "") {
				_, err := c.Sweep(context.Background(), client, nobody)
				testkit.Check(t, err)
			}
		}
	})
	for g := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(g)))
		users.Go(func() {
			for i := range 40 {
				client := fmt.Sprint("client-", rng.IntN(2))
				content := fmt.Sprint("of goroutine ", g, " ", i)
				switch rng.IntN(3) {
				case 0:
					mustPutIn(t, c, client, content)
				case 1:
					b, err := c.NewBatch(context.Background(), client)
					if err != nil {
						t.Error(err)
						return
					}
					mustAdd(t, b, content)
					testkit.Check(t, b.Commit(context.Background()))
				case 2:
					u, err := c.NewUpload(context.Background(), client, int64(len(content)), Ref{})
					if err != nil {
						t.Error(err)
						return
					}
					mustAppend(t, u, content)
					_, err = u.Finish(context.Background())
					testkit.Check(t, err)
					testkit.Check(t, u.Remove(context.Background()))
				}
				testkit.Holds(t, sees(t, c, client, content), content, "is lost")
				testkit.Check(t, c.Delete(context.Background(), client, addressOf(content)))
			}
		})
	}
	users.Wait()
	close(stop)
	sweeper.Wait()
	for range 2 { // the first removes the SHA-1 entries
		for _, client := range c.Clients() {
			testkit.Must(c.Sweep(t.Context(), client, nobody))(t)
		}
	}
	mustBeEmpty(t, filepath.Join(c.dir, "clients"))
	testkit.Holds(t, c.Used() == 0 && len(c.Clients()) == 0, c.Used(), "bytes are used, the clients are", c.Clients())
}
