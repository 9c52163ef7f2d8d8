package blob

import (
	"context"
	"crypto/sha1"
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
	"github.com/daybookq/daybook/job"
)

func mustOpenClients(t testing.TB, dir string, o Options) *Clients {
	t.Helper()
	c, err := OpenClients(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func newClients(t testing.TB, o Options) *Clients {
	t.Helper()
	return mustOpenClients(t, filepath.Join(t.TempDir(), "blobs"), o)
}

func reopenClients(t testing.TB, c *Clients, o Options) *Clients {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return mustOpenClients(t, c.shared.dir, o)
}

func mustStore(t testing.TB, c *Clients, name string) Store {
	t.Helper()
	s, err := c.Store(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustPutIn(t testing.TB, s Store, content string) Info {
	t.Helper()
	info, err := s.Put(context.Background(), strings.NewReader(content), Ref{})
	if err != nil || info.Address != addressOf(content) {
		t.Fatalf("Put: %+v, %v", info, err)
	}
	return info
}

// sees reports whether a store finds a blob. It tries every method that can find one.
func sees(t testing.TB, s Store, content string) bool {
	t.Helper()
	a := addressOf(content)
	_, statErr := s.Stat(t.Context(), a)
	b, getErr := s.Get(t.Context(), a)
	if getErr == nil {
		got := make([]byte, len(content))
		if _, err := b.ReadAt(got, 0); err != nil || string(got) != content {
			t.Errorf("read %q, %v", got, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	missing, err := s.Missing(t.Context(), []Address{a})
	if err != nil || (statErr == nil) != (getErr == nil) || (getErr == nil) != (len(missing) == 0) {
		t.Errorf("Stat returned %v, Get %v, Missing %v, %v", statErr, getErr, missing, err)
	}
	if statErr != nil {
		mustFail(t, statErr, ErrNotFound)
		mustFail(t, getErr, ErrNotFound)
	}
	return statErr == nil
}

// TestClients: a client sees its blobs and the shared ones, and changes only its blobs.
func TestClients(t *testing.T) {
	c := newClients(t, Options{})
	shared, ann, bob := mustStore(t, c, ""), mustStore(t, c, "ann"), mustStore(t, c, "bob")
	mustPutIn(t, shared, "of all")
	own := mustPutIn(t, ann, "of ann")
	check := func() {
		t.Helper()
		for _, want := range []struct {
			who     string
			s       Store
			content string
			sees    bool
		}{
			{"shared", shared, "of all", true}, {"shared", shared, "of ann", false},
			{"ann", ann, "of all", true}, {"ann", ann, "of ann", true},
			{"bob", bob, "of all", true}, {"bob", bob, "of ann", false},
		} {
			if got := sees(t, want.s, want.content); got != want.sees {
				t.Errorf("%s sees %q: %v", want.who, want.content, got)
			}
		}
	}
	check()
	for _, s := range []Store{shared, bob} {
		_, err := s.Resolve(t.Context(), Ref{SHA1: &own.SHA1})
		mustFail(t, err, ErrNotFound)
		mustFail(t, s.Delete(t.Context(), own.Address), ErrNotFound)
	}
	if a, err := ann.Resolve(t.Context(), Ref{SHA1: &own.SHA1}); a != own.Address || err != nil {
		t.Error(a, err)
	}
	mustFail(t, ann.Delete(t.Context(), addressOf("of all")), ErrNotFound)
	if mustPutIn(t, bob, "of ann").Existed {
		t.Error("a Put reports what another client has")
	}
	for who, want := range map[string]string{"": "of all", "ann": "of ann", "bob": "of ann"} {
		s := mustStore(t, c, who)
		infos, err := s.List(t.Context(), nil, 10)
		if err != nil || len(infos) != 1 || infos[0].Address != addressOf(want) || s.Used() != int64(len(want)) {
			t.Errorf("%q lists %v, uses %d; %v", who, infos, s.Used(), err)
		}
	}
	if err := bob.Delete(t.Context(), own.Address); err != nil {
		t.Error(err)
	}
	check()
	c = reopenClients(t, c, Options{})
	shared, ann, bob = mustStore(t, c, ""), mustStore(t, c, "ann"), mustStore(t, c, "bob")
	if c.Used() != int64(len("of all")+len("of ann")) || ann.Used() != int64(len("of ann")) {
		t.Errorf("%d bytes are used, %d by ann", c.Used(), ann.Used())
	}
	check()

	// Batches and uploads belong to the client, too.
	b, err := ann.NewBatch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustAdd(t, b, "in a batch")
	if err := b.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	u, err := ann.NewUpload(t.Context(), int64(len(wilson)), Ref{})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, u, wilson)
	for _, s := range []Store{shared, bob, mustStore(t, c, "nobody")} {
		_, err := s.Upload(t.Context(), u.State().ID)
		mustFail(t, err, ErrNotFound)
		if sees(t, s, "in a batch") {
			t.Error("another client sees the batch")
		}
	}
	c = reopenClients(t, c, Options{})
	ann = mustStore(t, c, "ann")
	if want := int64(len("of all") + len("of ann") + len("in a batch") + len(wilson)); c.Used() != want {
		t.Errorf("with an upload, %d bytes are used, want %d", c.Used(), want)
	}
	if u, err = ann.Upload(t.Context(), u.State().ID); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Finish(t.Context()); err != nil || !sees(t, ann, wilson) || !sees(t, ann, "in a batch") {
		t.Error(err)
	}

	// Unacknowledged bytes of an upload count until its store is open.
	if u, err = ann.NewUpload(t.Context(), 100, Ref{}); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(c.dir, "ann", "uploads", resumablePrefix+u.State().ID)
	used := c.Used()
	if err := os.WriteFile(data, make([]byte, 50), 0o600); err != nil {
		t.Fatal(err)
	}
	c = reopenClients(t, c, Options{})
	ann = mustStore(t, c, "ann")
	if c.Used() != used+50 || !sees(t, ann, wilson) || c.Used() != used {
		t.Errorf("%d bytes are used, want %d", c.Used(), used)
	}

	// A damaged blob of the client is an error, even if the shared store has the blob.
	mustPutIn(t, mustStore(t, c, ""), wilson)
	path := filepath.Join(c.dir, "ann", "blobs", "sha256", addressOf(wilson).String()[7:])
	if err := os.WriteFile(path, make([]byte, len(wilson)), 0o600); err != nil {
		t.Fatal(err)
	}
	blob, err := ann.Get(t.Context(), addressOf(wilson))
	if err != nil {
		t.Fatal(err)
	}
	mustBeDamaged(t, blob.Verify(), path)
	wilsonSHA1 := SHA1(sha1.Sum([]byte(wilson)))
	entry := filepath.Join(c.dir, "ann", "sha1", wilsonSHA1.String())
	if err := os.WriteFile(entry, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = ann.Resolve(t.Context(), Ref{SHA1: &wilsonSHA1})
	mustBeDamaged(t, err, entry)
	if err := errors.Join(blob.Close(), ann.Close()); err != nil {
		t.Error(err)
	}
}

// TestClientNames: names are exactly those that jobs allow. Other names cannot reach a directory.
func TestClientNames(t *testing.T) {
	c := newClients(t, Options{})
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
		_, err := c.Store(name)
		if want := job.CheckName("client", name); (want == nil) != (err == nil) || err != nil && !errors.Is(err, ErrClient) {
			t.Errorf("%q: %v, but for jobs %v", name, err, want)
		}
	}
	if maxClientName != job.MaxNameBytes {
		t.Errorf("names have up to %d bytes, those of jobs %d", maxClientName, job.MaxNameBytes)
	}
}

// TestClientDirectories: only a call that stores something makes a directory, the number of directories is bounded, and
// a sweep removes an empty one unless it is in use.
func TestClientDirectories(t *testing.T) {
	clock := &clock{time.Unix(1_700_000_000, 0)}
	o := Options{Hooks: Hooks{Now: clock.now}}
	c := newClients(t, o)
	c.max = 2
	sweep := func() {
		t.Helper()
		all, err := c.All()
		for _, s := range all {
			_, sweepErr := s.Sweep(t.Context(), nobody)
			err = errors.Join(err, sweepErr)
		}
		if err != nil {
			t.Error(err)
		}
	}
	mustHave := func(want ...string) {
		t.Helper()
		var got []string
		entries, err := os.ReadDir(c.dir)
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if err != nil || !slices.Equal(got, want) || !slices.Equal(c.names(), want) {
			t.Errorf("there are %v, and Names returns %v; want %v; %v", got, c.names(), want, err)
		}
	}
	ann, bob, cal := mustStore(t, c, "ann"), mustStore(t, c, "bob"), mustStore(t, c, "cal")
	if sees(t, ann, wilson) || ann.Used() != 0 {
		t.Error("there is something")
	}
	infos, err := ann.List(t.Context(), nil, 1)
	if len(infos) != 0 || err != nil {
		t.Error(infos, err)
	}
	if _, err := ann.List(t.Context(), nil, 0); err == nil {
		t.Error("a limit of 0 is no error")
	}
	mustFail(t, ann.Delete(t.Context(), addressOf(wilson)), ErrNotFound)
	sweep()
	mustHave()

	mustPutIn(t, ann, "ann")
	b, err := bob.NewBatch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = cal.Put(t.Context(), strings.NewReader("cal"), Ref{})
	mustFail(t, err, ErrClients)
	_, err = cal.NewBatch(t.Context())
	mustFail(t, err, ErrClients)
	_, err = cal.NewUpload(t.Context(), 1, Ref{})
	mustFail(t, err, ErrClients)
	if sees(t, cal, "ann") {
		t.Error("cal sees a blob of ann")
	}
	clock.at = clock.at.Add(2 * defaultGrace)
	sweep()
	mustHave("bob") // ann is empty; the batch of bob has not ended
	if err := b.Discard(); err != nil {
		t.Error(err)
	}
	u, err := bob.NewUpload(t.Context(), 1, Ref{})
	if err != nil {
		t.Fatal(err)
	}
	mustPutIn(t, ann, "ann again")
	sweep()
	mustHave("ann", "bob")
	if err := u.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	mustPutIn(t, bob, "") // an empty blob is a blob, too
	sweep()
	mustHave("ann", "bob")
	if err := bob.Delete(t.Context(), addressOf("")); err != nil {
		t.Error(err)
	}
	sweep()
	mustHave("ann")
	c = reopenClients(t, c, o)
	mustHave("ann")
	if err := os.Mkdir(filepath.Join(c.dir, "not a client"), 0o700); err != nil {
		t.Fatal(err)
	}
	c = reopenClients(t, c, o)
	if got := c.names(); !slices.Equal(got, []string{"ann"}) {
		t.Errorf("the clients are %q", got)
	}
	_, err = OpenClients(c.shared.dir, o)
	mustFail(t, err, filelock.ErrLocked)
	_, err = OpenClients(t.TempDir(), Options{ClientBytes: -1})
	if err == nil {
		t.Error("a negative quota is no error")
	}
}

// TestClientQuotas: the quota of each client and the quota of all clients hold, even for clients that are not open.
func TestClientQuotas(t *testing.T) {
	o := Options{QuotaBytes: 25, ClientBytes: 10}
	c := newClients(t, o)
	put := func(name string, n int) error {
		_, err := mustStore(t, c, name).Put(t.Context(), strings.NewReader(strings.Repeat(name+"x", n)[:n]), Ref{})
		return err
	}
	mustFail(t, put("ann", 11), ErrQuota)
	for _, name := range []string{"ann", "bob"} {
		if err := put(name, 10); err != nil {
			t.Error(err)
		}
	}
	mustFail(t, put("cal", 6), ErrQuota)
	_, err := mustStore(t, c, "cal").NewUpload(t.Context(), 6, Ref{})
	mustFail(t, err, ErrQuota)
	mustFail(t, put("", 6), ErrQuota)
	c = reopenClients(t, c, o)
	mustFail(t, put("cal", 6), ErrQuota)
	if err := put("", 5); err != nil {
		t.Error(err)
	}
	mustFail(t, put("ann", 1), ErrQuota)
	if c.Used() != 25 {
		t.Errorf("%d bytes are used", c.Used())
	}
	if err := mustStore(t, c, "ann").Delete(t.Context(), addressOf("annxannxan")); err != nil {
		t.Error(err)
	}
	if err := put("cal", 10); err != nil {
		t.Error(err)
	}
	if c.Used() != 25 {
		t.Errorf("%d bytes are used", c.Used())
	}
	mustFail(t, put("ann", 1), ErrQuota)

	// The shared blobs have only the quota of all.
	c = newClients(t, o)
	if err := put("", 25); err != nil {
		t.Error(err)
	}
	mustFail(t, put("ann", 1), ErrQuota)
}

// TestClientsAtOnce: clients put and delete blobs while sweeps remove the directories of clients without blobs.
func TestClientsAtOnce(t *testing.T) {
	c := newClients(t, Options{})
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
			all, err := c.All()
			for _, s := range all {
				_, sweepErr := s.Sweep(context.Background(), nobody)
				err = errors.Join(err, sweepErr)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	for g := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(g)))
		users.Go(func() {
			for i := range 40 {
				s := mustStore(t, c, fmt.Sprint("client-", rng.IntN(2)))
				content := fmt.Sprint("of goroutine ", g, " ", i)
				switch rng.IntN(3) {
				case 0:
					mustPutIn(t, s, content)
				case 1:
					b, err := s.NewBatch(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					mustAdd(t, b, content)
					if err := b.Commit(context.Background()); err != nil {
						t.Error(err)
					}
				case 2:
					u, err := s.NewUpload(context.Background(), int64(len(content)), Ref{})
					if err != nil {
						t.Error(err)
						return
					}
					mustAppend(t, u, content)
					if _, err := u.Finish(context.Background()); err != nil {
						t.Error(err)
					}
					if err := u.Remove(context.Background()); err != nil {
						t.Error(err)
					}
				}
				if !sees(t, s, content) {
					t.Errorf("%q is lost", content)
				}
				if err := s.Delete(context.Background(), addressOf(content)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	close(stop)
	sweeper.Wait()
	all, err := c.All()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first removes the SHA-1 entries
		for _, s := range all {
			if _, err := s.Sweep(t.Context(), nobody); err != nil {
				t.Error(err)
			}
		}
	}
	mustBeEmpty(t, c.dir)
	if c.Used() != 0 || len(c.names()) != 0 {
		t.Errorf("%d bytes are used, the clients are %v", c.Used(), c.names())
	}
}
