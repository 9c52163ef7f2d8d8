package s3

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/blob/s3/s3test"
)

// TestContract: stores in a bucket behave like stores in a directory.
func TestContract(t *testing.T) {
	tests := []struct {
		name string
		o    blob.Options
		test func(*testing.T, *store)
	}{
		{"put, read, find", blob.Options{MaxBytes: 12 << 20}, testPut},
		{"ranges", blob.Options{}, testRanges},
		{"list", blob.Options{}, testList},
		{"missing and sweep", blob.Options{}, testSweep},
		{"batch", blob.Options{}, testBatch},
		{"resumable", blob.Options{}, testResumable},
		{"quota", blob.Options{QuotaBytes: 1000, ClientBytes: 500}, testQuota},
		{"clients", blob.Options{}, testClients},
		{"same address at once", blob.Options{}, testAtOnce},
	}
	t.Run("dir", func(t *testing.T) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) { test.test(t, newStore(t, "", test.o)) })
		}
	})
	t.Run("s3", func(t *testing.T) {
		server := s3test.Start(t, "bucket")
		for i, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				prefix := fmt.Sprintf("bucket/some/prefix %d+", i)
				s := newStore(t, server.Address(prefix), test.o)
				s.files = filepath.Join(server.Dir, prefix)
				test.test(t, s)
				used := s.Used()
				s.noFiles()
				s.reopen()
				wantUsed(t, s, int(used))
			})
		}
	})
}

func testPut(t *testing.T, all *store) {
	s := all.of("")
	for _, content := range []string{"", "WILSON!", long(1 << 20), long(1<<20 + 1), long(11<<20 + 7)} {
		mustMiss(t, s, content)
		if info := mustPut(t, s, content); info.Existed {
			t.Errorf("a new blob of %d bytes existed", info.Size)
		}
		mustRead(t, s, content)
		if info := mustPut(t, s, content); !info.Existed {
			t.Errorf("a blob of %d bytes did not exist", info.Size)
		}
		a, x := addressOf(content), blob.SHA1(sha1.Sum([]byte(content)))
		if got, err := s.Resolve(t.Context(), s.client, blob.Ref{SHA1: &x}); err != nil || got != a {
			t.Errorf("SHA-1 leads to %s, %v", got, err)
		}
		info, err := s.Stat(t.Context(), s.client, a)
		if err != nil || info.Size != int64(len(content)) || info.Address != a || time.Since(info.Changed).Abs() > time.Minute {
			t.Errorf("Stat: %+v, %v", info, err)
		}
	}
	wantUsed(t, s, 7+1<<20+1<<20+1+11<<20+7)
	other := addressOf("other")
	if _, err := s.Put(t.Context(), s.client, strings.NewReader("content"), blob.Ref{SHA256: &other}); !errors.Is(err, blob.ErrDigest) {
		t.Errorf("another digest: %v", err)
	}
	if _, err := s.Put(t.Context(), s.client, strings.NewReader(long(12<<20+1)), blob.Ref{}); !errors.Is(err, blob.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	x := blob.SHA1(sha1.Sum([]byte("content")))
	if _, err := s.Resolve(t.Context(), s.client, blob.Ref{SHA1: &x}); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("SHA-1 of a refused blob: %v", err)
	}
	if err := s.Delete(t.Context(), s.client, addressOf("WILSON!")); err != nil {
		t.Error(err)
	}
	mustMiss(t, s, "WILSON!")
	if err := s.Delete(t.Context(), s.client, addressOf("WILSON!")); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("second Delete: %v", err)
	}
	all.noFiles()
}

func testRanges(t *testing.T, all *store) {
	s, content := all.of(""), long(10<<20+3)
	for _, content := range []string{content, content[:1000]} {
		mustPut(t, s, content)
		b, err := s.Get(t.Context(), s.client, addressOf(content))
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		for i := range 8 {
			running.Go(func() {
				off := i * len(content) / 8
				p := make([]byte, 900)
				n, err := b.ReadAt(p, int64(off))
				want := content[off:min(off+900, len(content))]
				if string(p[:n]) != want || (err == io.EOF) != (len(want) < 900) {
					t.Errorf("ReadAt %d: %d bytes, %v", off, n, err)
				}
			})
		}
		running.Wait()
		for _, off := range []int{0, 5, len(content) - 2, len(content) / 2} {
			if _, err := b.Seek(int64(off), io.SeekStart); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(struct{ io.Reader }{b})
			if err != nil || string(rest) != content[off:] {
				t.Errorf("read from %d: %d bytes, %v", off, len(rest), err)
			}
		}
		if _, err := b.ReadAt(make([]byte, 1), -1); err == nil {
			t.Error("ReadAt before the first byte succeeded")
		}
		if n, err := b.ReadAt(make([]byte, 1), int64(len(content))); n != 0 || err != io.EOF {
			t.Errorf("ReadAt at the end: %d, %v", n, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func testList(t *testing.T, all *store) {
	s := all.of("")
	var want []blob.Address
	for i := range 25 {
		want = append(want, mustPut(t, s, fmt.Sprint("blob ", i)).Address)
	}
	slices.SortFunc(want, func(a, b blob.Address) int { return slices.Compare(a[:], b[:]) })
	var got []blob.Address
	for after := (*blob.Address)(nil); ; {
		page, err := s.List(t.Context(), s.client, after, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range page {
			got = append(got, info.Address)
		}
		if len(page) < 10 {
			break
		}
		after = &page[len(page)-1].Address
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %d of %d blobs", len(got), len(want))
	}
	if _, err := s.List(t.Context(), s.client, nil, 0); err == nil {
		t.Error("a list without a limit succeeded")
	}
}

func testSweep(t *testing.T, all *store) {
	s := all.of("")
	for _, content := range []string{"named", "renewed", "put again", "old"} {
		mustPut(t, s, content)
	}
	named := func(a blob.Address) bool { return a == addressOf("named") }
	sweep := func(want blob.Swept) {
		t.Helper()
		if got, err := s.Sweep(t.Context(), s.client, named); err != nil || got != want {
			t.Fatalf("Sweep: %+v, %v; not %+v", got, err, want)
		}
	}
	sweep(blob.Swept{})
	all.age(25 * time.Hour)
	missing, err := s.Missing(t.Context(), s.client, []blob.Address{addressOf("none"), addressOf("renewed"), addressOf("nothing")})
	if err != nil || !slices.Equal(missing, []blob.Address{addressOf("none"), addressOf("nothing")}) {
		t.Fatalf("missing: %v, %v", missing, err)
	}
	mustPut(t, s, "put again")
	for content, young := range map[string]bool{"named": false, "old": false, "renewed": true, "put again": true} {
		info, err := s.Stat(t.Context(), s.client, addressOf(content))
		if err != nil || (time.Since(info.Changed) < time.Hour) != young {
			t.Errorf("%s is of %v, %v", content, info.Changed, err)
		}
	}
	sweep(blob.Swept{Blobs: 1, Bytes: 3, SHA1s: 1})
	mustMiss(t, s, "old")
	for _, content := range []string{"named", "renewed", "put again"} {
		mustRead(t, s, content)
	}
	x := blob.SHA1(sha1.Sum([]byte("old")))
	if _, err := s.Resolve(t.Context(), s.client, blob.Ref{SHA1: &x}); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("SHA-1 of a swept blob: %v", err)
	}
	all.age(25 * time.Hour)
	sweep(blob.Swept{Blobs: 2, Bytes: 16, SHA1s: 2})
	mustRead(t, s, "named")
	wantUsed(t, s, 5)
}

func testBatch(t *testing.T, all *store) {
	s := all.of("")
	mustPut(t, s, "there")
	b, err := s.NewBatch(t.Context(), s.client)
	if err != nil {
		t.Fatal(err)
	}
	contents := []string{"there", long(2 << 20), long(6 << 20)}
	for i := range 40 {
		contents = append(contents, fmt.Sprint("member ", i))
	}
	for _, content := range append(contents, "member 7") {
		if _, err := b.Add(t.Context(), strings.NewReader(content), blob.Ref{}); err != nil {
			t.Fatal(err)
		}
	}
	mustMiss(t, s, "member 7")
	if err := b.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	bytes := 0
	for _, content := range contents {
		mustRead(t, s, content)
		bytes += len(content)
	}
	wantUsed(t, s, bytes)
	discarded, err := s.NewBatch(t.Context(), s.client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := discarded.Add(t.Context(), strings.NewReader("discarded"), blob.Ref{}); err != nil {
		t.Fatal(err)
	}
	if err := discarded.Discard(); err != nil {
		t.Fatal(err)
	}
	mustMiss(t, s, "discarded")
	wantUsed(t, s, bytes)
}

func testResumable(t *testing.T, all *store) {
	s, content := all.of("alice"), long(6<<20)
	u, err := s.NewUpload(t.Context(), s.client, int64(len(content)), blob.Ref{})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Append(t.Context(), 0, strings.NewReader(content[:1000])); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Finish(t.Context()); !errors.Is(err, blob.ErrIncomplete) {
		t.Errorf("Finish of a part: %v", err)
	}
	all.reopen()
	s = all.of("alice")
	wantUsed(t, s, 1000)
	if u, err = s.Upload(t.Context(), s.client, u.State().ID); err != nil {
		t.Fatal(err)
	}
	if err := u.Append(t.Context(), 1000, strings.NewReader(content[1000:])); err != nil {
		t.Fatal(err)
	}
	mustMiss(t, s, content)
	if info, err := u.Finish(t.Context()); err != nil || info.Address != addressOf(content) {
		t.Fatalf("Finish: %+v, %v", info, err)
	}
	mustRead(t, s, content)
	wantUsed(t, s, len(content))
	all.reopen()
	s = all.of("alice")
	if u, err = s.Upload(t.Context(), s.client, u.State().ID); err != nil || u.State().Blob == nil || *u.State().Blob != addressOf(content) {
		t.Fatalf("the finished upload after a restart: %+v, %v", u, err)
	}
	if info, err := u.Finish(t.Context()); err != nil || info.Size != int64(len(content)) {
		t.Errorf("second Finish: %+v, %v", info, err)
	}
	if err := u.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	mustRead(t, s, content)
	wantUsed(t, s, len(content))
}

func testQuota(t *testing.T, all *store) {
	s, alice := all.of(""), all.of("alice")
	mustPut(t, s, long(400))
	mustPut(t, alice, long(450))
	if _, err := alice.Put(t.Context(), alice.client, strings.NewReader(long(51)), blob.Ref{}); !errors.Is(err, blob.ErrQuota) {
		t.Errorf("above the quota of a client: %v", err)
	}
	if _, err := s.Put(t.Context(), s.client, strings.NewReader(long(151)), blob.Ref{}); !errors.Is(err, blob.ErrQuota) {
		t.Errorf("above the quota of all: %v", err)
	}
	if _, err := s.NewUpload(t.Context(), s.client, 151, blob.Ref{}); !errors.Is(err, blob.ErrQuota) {
		t.Errorf("upload above the quota of all: %v", err)
	}
	a := addressOf(long(400))
	if _, err := s.Put(t.Context(), s.client, strings.NewReader(long(400)), blob.Ref{SHA256: &a}); err != nil {
		t.Errorf("put again, with a known address: %v", err)
	}
	wantUsed(t, all, 850)
	all.reopen()
	if _, err := all.Put(t.Context(), "", strings.NewReader(long(151)), blob.Ref{}); !errors.Is(err, blob.ErrQuota) {
		t.Errorf("above the quota of all, after a restart: %v", err)
	}
	if _, err := all.Put(t.Context(), "alice", strings.NewReader(long(51)), blob.Ref{}); !errors.Is(err, blob.ErrQuota) {
		t.Errorf("above the quota of a client, after a restart: %v", err)
	}
	mustPut(t, all.of(""), long(150))
	wantUsed(t, all, 1000)
}

func testClients(t *testing.T, all *store) {
	shared, alice, bob := all.of(""), all.of("alice"), all.of("bob:2")
	mustPut(t, shared, "of all")
	mustPut(t, alice, "of alice")
	mustRead(t, alice, "of all")
	mustRead(t, bob, "of all")
	mustMiss(t, bob, "of alice")
	mustMiss(t, shared, "of alice")
	if info := mustPut(t, bob, "of alice"); info.Existed {
		t.Error("a client learns what another one has")
	}
	all.reopen()
	if names := all.Clients(); !slices.Equal(names, []string{"alice", "bob:2"}) {
		t.Errorf("clients: %v", names)
	}
	mustRead(t, all.of("bob:2"), "of alice")
	wantUsed(t, all.of("bob:2"), 8)
	if err := all.Delete(t.Context(), "bob:2", addressOf("of alice")); err != nil {
		t.Error(err)
	}
	mustRead(t, all.of("alice"), "of alice")
	if _, err := all.Sweep(t.Context(), "bob:2", func(blob.Address) bool { return true }); err != nil {
		t.Error(err)
	}
	if names := all.Clients(); !slices.Equal(names, []string{"alice"}) {
		t.Errorf("clients after the last blob of one was removed: %v", names)
	}
	wantUsed(t, all, 14)
	carol := all.of("carol") // her only blob is empty
	mustPut(t, carol, "")
	for range 2 {
		if _, err := carol.Sweep(t.Context(), carol.client, func(blob.Address) bool { return true }); err != nil {
			t.Error(err)
		}
		mustRead(t, carol, "")
		all.reopen()
		carol = all.of("carol")
	}
	if err := carol.Delete(t.Context(), carol.client, addressOf("")); err != nil {
		t.Error(err)
	}
	if _, err := carol.Sweep(t.Context(), carol.client, func(blob.Address) bool { return true }); err != nil {
		t.Error(err)
	}
	if names := all.Clients(); !slices.Equal(names, []string{"alice"}) {
		t.Errorf("clients after a blob without bytes was removed: %v", names)
	}
}

func testAtOnce(t *testing.T, all *store) {
	s := all.of("")
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			if _, err := s.Put(context.Background(), s.client, strings.NewReader("the same"), blob.Ref{}); err != nil {
				t.Error(err)
			}
		})
		running.Go(func() {
			if _, err := s.Missing(context.Background(), s.client, []blob.Address{addressOf("the same")}); err != nil {
				t.Error(err)
			}
		})
		running.Go(func() {
			if _, err := s.Sweep(context.Background(), s.client, func(blob.Address) bool { return false }); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	mustRead(t, s, "the same")
	wantUsed(t, s, 8)
}
