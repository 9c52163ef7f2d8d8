package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/blob/s3/s3test"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestContract: stores in a bucket behave like stores in a directory.
func TestContract(t *testing.T) {
	tests := []struct {
		name string
		o    blob.Options
		test func(*testing.T, *store)
	}{
		{"put, read, find", blob.Options{}, testPut},
		{"refusals", blob.Options{MaxBytes: 12 << 20}, testRefusals},
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
	s, sum := all.of(""), 0
	for _, size := range []int{0, 7, 64<<10 - 1, 64 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1, 11<<20 + 7} {
		content := long(size)
		mustMiss(t, s, content)
		info := mustPut(t, s, content)
		testkit.Holds(t, !info.Existed, "a new blob of", info.Size, "bytes existed")
		mustRead(t, s, content)
		info = mustPut(t, s, content)
		testkit.Holds(t, info.Existed, "a blob of", info.Size, "bytes did not exist")
		sum += size
		a := addressOf(content)
		testkit.Equal(t, testkit.Must(s.resolve(t, content))(t), a, "SHA-1 leads to")
		info = testkit.Must(s.Stat(t.Context(), s.client, a))(t)
		testkit.Holds(t, info.Size == int64(len(content)) && info.Address == a && time.Since(info.Changed).Abs() <= time.Minute, "Stat", info)
	}
	wantUsed(t, s, sum)
	for _, want := range []error{nil, blob.ErrNotFound} {
		err := s.Delete(t.Context(), s.client, addressOf(long(7)))
		testkit.Holds(t, errors.Is(err, want), "Delete", err, "not", want)
		mustMiss(t, s, long(7))
	}
	wantUsed(t, s, sum-7)
	all.noFiles()
}

// testRefusals: a refused upload leaves nothing, and the next one is accepted.
func testRefusals(t *testing.T, all *store) {
	s, other := all.of(""), addressOf("other")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		r    io.Reader
		ref  blob.Ref
		want error
	}{
		"another SHA-256": {t.Context(), strings.NewReader("refused"), blob.Ref{SHA256: &other}, blob.ErrDigest},
		"another SHA-1":   {t.Context(), strings.NewReader("refused"), blob.Ref{SHA1: &blob.SHA1{}}, blob.ErrDigest},
		"too large":       {t.Context(), strings.NewReader(long(12<<20 + 1)), blob.Ref{}, blob.ErrTooLarge},
		"cut off":         {t.Context(), io.MultiReader(strings.NewReader("part"), iotest.ErrReader(io.ErrUnexpectedEOF)), blob.Ref{}, io.ErrUnexpectedEOF}, // as net/http reports a body that was cut off
		"canceled":        {ended, strings.NewReader("x"), blob.Ref{}, context.Canceled},
	} {
		_, err := s.Put(tt.ctx, s.client, tt.r, tt.ref)
		testkit.Holds(t, errors.Is(err, tt.want), name, err)
		all.noFiles()
	}
	testkit.Fails(s.resolve(t, "refused"))(t, blob.ErrNotFound)
	wantUsed(t, s, 0)
	info := testkit.Must(s.put(t.Context(), "other", blob.Ref{SHA256: &other}))(t)
	testkit.Equal(t, info.Address, other, "Put of the expected content:", info)
	mustPut(t, s, long(12<<20))
}

func testRanges(t *testing.T, all *store) {
	s, content := all.of(""), long(10<<20+3)
	for _, content := range []string{content, content[:1000]} {
		mustPut(t, s, content)
		b := testkit.Must(s.Get(t.Context(), s.client, addressOf(content)))(t)
		var running sync.WaitGroup
		for i := range 8 {
			running.Go(func() {
				off := i * len(content) / 8
				p := make([]byte, 900)
				n, err := b.ReadAt(p, int64(off))
				want := content[off:min(off+900, len(content))]
				testkit.Holds(t, string(p[:n]) == want && (err == io.EOF) == (len(want) < 900), "ReadAt", off, n, "bytes", err)
			})
		}
		running.Wait()
		for _, off := range []int{0, 5, len(content) - 2, len(content) / 2} {
			testkit.Must(b.Seek(int64(off), io.SeekStart))(t)
			rest := testkit.Must(io.ReadAll(struct{ io.Reader }{b}))(t)
			testkit.Holds(t, string(rest) == content[off:], "read from", off, len(rest), "bytes")
		}
		testkit.Fails(b.ReadAt(make([]byte, 1), -1))(t)
		n, err := b.ReadAt(make([]byte, 1), int64(len(content)))
		testkit.Holds(t, n == 0 && err == io.EOF, "ReadAt at the end", n, err)
		testkit.Check(t, b.Close())
	}
}

func testList(t *testing.T, all *store) {
	s := all.of("")
	var want []blob.Address
	for i := range 25 {
		want = append(want, mustPut(t, s, fmt.Sprint("blob ", i)).Address)
	}
	slices.SortFunc(want, func(a, b blob.Address) int { return slices.Compare(a[:], b[:]) })
	for _, limit := range []int{1, 10, 24, 25, 26, blob.MaxList} {
		var got []blob.Address
		for after := (*blob.Address)(nil); ; {
			page := testkit.Must(s.List(t.Context(), s.client, after, limit))(t)
			testkit.MustHold(t, len(page) <= limit, "a page of", limit, "has", len(page))
			for _, info := range page {
				got = append(got, info.Address)
			}
			if len(page) < limit {
				break
			}
			after = &page[len(page)-1].Address
		}
		testkit.Holds(t, slices.Equal(got, want), "pages of", limit, "list", len(got), "of", len(want), "blobs")
	}
	for _, limit := range []int{0, blob.MaxList + 1} {
		_, err := s.List(t.Context(), s.client, nil, limit)
		testkit.Holds(t, err != nil, "the limit", limit, "was taken")
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
		testkit.MustEqual(t, testkit.Must(s.Sweep(t.Context(), s.client, named))(t), want, "Sweep")
	}
	sweep(blob.Swept{})
	all.age(25 * time.Hour)
	missing := testkit.Must(s.Missing(t.Context(), s.client, []blob.Address{addressOf("none"), addressOf("renewed"), addressOf("nothing")}))(t)
	testkit.MustHold(t, slices.Equal(missing, []blob.Address{addressOf("none"), addressOf("nothing")}), "missing", missing)
	mustPut(t, s, "put again")
	for content, young := range map[string]bool{"named": false, "old": false, "renewed": true, "put again": true} {
		info := testkit.Must(s.Stat(t.Context(), s.client, addressOf(content)))(t)
		testkit.Equal(t, time.Since(info.Changed) < time.Hour, young, content, "is", info.Changed)
	}
	sweep(blob.Swept{Blobs: 1, Bytes: 3, SHA1s: 1})
	mustMiss(t, s, "old")
	for _, content := range []string{"named", "renewed", "put again"} {
		mustRead(t, s, content)
	}
	testkit.Fails(s.resolve(t, "old"))(t, blob.ErrNotFound)
	all.age(25 * time.Hour)
	sweep(blob.Swept{Blobs: 2, Bytes: 16, SHA1s: 2})
	mustRead(t, s, "named")
	wantUsed(t, s, 5)
}

func testBatch(t *testing.T, all *store) {
	s := all.of("")
	mustPut(t, s, "there")
	b := testkit.Must(s.NewBatch(t.Context(), s.client))(t)
	contents := []string{"there", long(2 << 20), long(6 << 20)}
	for i := range 40 {
		contents = append(contents, fmt.Sprint("member ", i))
	}
	for _, content := range append(contents, "member 7") {
		testkit.Must(b.Add(t.Context(), strings.NewReader(content), blob.Ref{}))(t)
	}
	mustMiss(t, s, "member 7")
	testkit.NoError(t, b.Commit(t.Context()))
	bytes := 0
	for _, content := range contents {
		mustRead(t, s, content)
		bytes += len(content)
	}
	wantUsed(t, s, bytes)
	discarded := testkit.Must(s.NewBatch(t.Context(), s.client))(t)
	testkit.Must(discarded.Add(t.Context(), strings.NewReader("discarded"), blob.Ref{}))(t)
	testkit.NoError(t, discarded.Discard())
	mustMiss(t, s, "discarded")
	wantUsed(t, s, bytes)
}

// testResumable: an upload in several parts, with a restart between any two steps.
func testResumable(t *testing.T, all *store) {
	content := long(6 << 20)
	want := addressOf(content)
	for _, size := range []int64{-1, int64(len(content))} {
		for _, restarts := range []bool{false, true} {
			s := all.of("alice")
			begin := func() *blob.Upload {
				return testkit.Must(s.NewUpload(t.Context(), s.client, size, blob.Ref{SHA256: &want}))(t)
			}
			u := begin()
			restart := func() {
				t.Helper()
				if !restarts {
					return
				}
				all.reopen()
				s = all.of("alice")
				u = testkit.Must(s.Upload(t.Context(), s.client, u.State().ID))(t)
			}
			add := func(from, to int) {
				t.Helper()
				testkit.NoError(t, u.Append(t.Context(), int64(from), strings.NewReader(content[from:to])))
				wantUsed(t, s, to)
				restart()
				mustMiss(t, s, content)
			}
			if size < 0 { // another content than was announced removes the upload
				add(0, 5)
				testkit.Fails(u.Finish(t.Context()))(t, blob.ErrDigest)
				testkit.Failed(t, u.Append(t.Context(), 5, strings.NewReader("x")), blob.ErrNotFound)
				testkit.Fails(s.Upload(t.Context(), s.client, u.State().ID))(t, blob.ErrNotFound)
				all.noFiles()
				wantUsed(t, s, 0)
				u = begin()
			}
			for from := 0; from < len(content); {
				to := min(3*from+1000, len(content))
				add(from, to)
				from = to
				for _, wrong := range []int{from - 1, from + 1, 1 << 40} {
					err := u.Append(t.Context(), int64(wrong), strings.NewReader("x"))
					testkit.Holds(t, errors.Is(err, blob.ErrOffset), "Append at", wrong, "not", from, err)
				}
				if _, err := u.Finish(t.Context()); size >= 0 && from < len(content) && !errors.Is(err, blob.ErrIncomplete) {
					t.Errorf("Finish of %d of %d bytes: %v", from, size, err)
				} else if size < 0 {
					break
				}
			}
			if size < 0 {
				u = begin()
				add(0, len(content))
			}
			for range 2 { // the client may not have got the first answer
				info := testkit.Must(u.Finish(t.Context()))(t)
				testkit.MustHold(t, info.Address == want && info.Size == int64(len(content)), "Finish", info)
				restart()
				state := u.State()
				testkit.Holds(t, state.Blob != nil && *state.Blob == want, "a finished upload", state)
			}
			testkit.Equal(t, testkit.Must(s.resolve(t, content))(t), want, "SHA-1 leads to")
			testkit.Check(t, u.Remove(t.Context()))
			all.noFiles()
			mustRead(t, s, content)
			wantUsed(t, s, len(content))
			testkit.Check(t, s.Delete(t.Context(), s.client, want))
		}
	}
}

func testQuota(t *testing.T, all *store) {
	s, alice, bob := all.of(""), all.of("alice"), all.of("bob")
	refused := func(s blobs, content string, want blob.Ref) {
		t.Helper()
		_, err := s.put(t.Context(), content, want)
		testkit.Holds(t, errors.Is(err, blob.ErrQuota), len(content), "bytes of client", s.client, err)
		all.noFiles()
	}
	mustPut(t, s, long(400))
	mustPut(t, alice, long(450))
	a := addressOf(long(400))
	for range 2 {
		refused(alice, long(51), blob.Ref{})
		refused(s, long(151), blob.Ref{})
		refused(bob, long(151), blob.Ref{})
		testkit.Fails(bob.NewUpload(t.Context(), bob.client, 151, blob.Ref{}))(t, blob.ErrQuota)
		testkit.Must(s.put(t.Context(), long(400), blob.Ref{SHA256: &a}))(t)
		refused(s, long(400)+long(151), blob.Ref{SHA256: &a})
		wantUsed(t, all, 850)
		all.reopen()
		s, alice, bob = all.of(""), all.of("alice"), all.of("bob")
	}
	mustPut(t, s, long(150))
	wantUsed(t, all, 1000)
	testkit.Check(t, s.Delete(t.Context(), s.client, a))
	refused(alice, long(51), blob.Ref{})
	b := mustPut(t, s, long(399)).Address // the shared blobs have no quota of a client
	wantUsed(t, s, 549)

	// The blob that a Put is to replace is deleted while the new content arrives.
	deletes := readerFunc(func(p []byte) (int, error) {
		if err := s.Delete(t.Context(), s.client, b); err != nil {
			return 0, io.EOF
		}
		mustPut(t, s, "x"+long(398))
		return copy(p, long(399)), nil
	})
	testkit.Fails(s.Put(t.Context(), s.client, deletes, blob.Ref{SHA256: &b}))(t, blob.ErrQuota)
	wantUsed(t, all, 999)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func testClients(t *testing.T, all *store) {
	shared, alice, bob := all.of(""), all.of("alice"), all.of("bob:2")
	mustPut(t, shared, "of all")
	mustPut(t, alice, "of alice")
	mustRead(t, alice, "of all")
	mustRead(t, bob, "of all")
	mustMiss(t, bob, "of alice")
	mustMiss(t, shared, "of alice")
	b := testkit.Must(alice.NewBatch(t.Context(), alice.client))(t)
	testkit.Must(b.Add(t.Context(), strings.NewReader("in a batch"), blob.Ref{}))(t)
	testkit.Check(t, b.Commit(t.Context()))
	mustRead(t, alice, "in a batch")
	u := testkit.Must(alice.NewUpload(t.Context(), alice.client, 7, blob.Ref{}))(t)
	for _, other := range []blobs{shared, bob, all.of("nobody")} {
		mustMiss(t, other, "in a batch")
		_, err := other.resolve(t, "of alice")
		_, uploadErr := other.Upload(t.Context(), other.client, u.State().ID)
		for _, err := range []error{err, uploadErr, other.Delete(t.Context(), other.client, addressOf("of alice"))} {
			testkit.Holds(t, errors.Is(err, blob.ErrNotFound), "client", other.client, err)
		}
	}
	testkit.Failed(t, alice.Delete(t.Context(), alice.client, addressOf("of all")), blob.ErrNotFound)
	testkit.Check(t, errors.Join(u.Remove(t.Context()), alice.Delete(t.Context(), alice.client, addressOf("in a batch"))))
	testkit.Holds(t, !mustPut(t, bob, "of alice").Existed, "a client learns what another one has")
	for client, want := range map[string]string{"": "of all", "alice": "of alice", "bob:2": "of alice"} {
		list := testkit.Must(all.List(t.Context(), client, nil, 10))(t)
		testkit.Holds(t, len(list) == 1 && list[0].Address == addressOf(want), "client", client, "lists", list)
	}
	all.reopen()
	testkit.EqualSlices(t, all.Clients(), []string{"alice", "bob:2"}, "clients")
	mustRead(t, all.of("bob:2"), "of alice")
	wantUsed(t, all.of("bob:2"), 8)
	testkit.Check(t, all.Delete(t.Context(), "bob:2", addressOf("of alice")))
	mustRead(t, all.of("alice"), "of alice")
	testkit.Must(all.Sweep(t.Context(), "bob:2", func(blob.Address) bool { return true }))(t)
	testkit.EqualSlices(t, all.Clients(), []string{"alice"}, "clients after the last blob of one was removed")
	wantUsed(t, all, 14)
	carol := all.of("carol") // her only blob is empty
	mustPut(t, carol, "")
	for range 2 {
		testkit.Must(carol.Sweep(t.Context(), carol.client, func(blob.Address) bool { return true }))(t)
		mustRead(t, carol, "")
		all.reopen()
		carol = all.of("carol")
	}
	testkit.Check(t, carol.Delete(t.Context(), carol.client, addressOf("")))
	testkit.Must(carol.Sweep(t.Context(), carol.client, func(blob.Address) bool { return true }))(t)
	testkit.EqualSlices(t, all.Clients(), []string{"alice"}, "clients after a blob without bytes was removed")
}

func testAtOnce(t *testing.T, all *store) {
	s := all.of("")
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			_, err := s.Put(context.Background(), s.client, strings.NewReader("the same"), blob.Ref{})
			testkit.Check(t, err)
		})
		running.Go(func() {
			_, err := s.Missing(context.Background(), s.client, []blob.Address{addressOf("the same")})
			testkit.Check(t, err)
		})
		running.Go(func() {
			_, err := s.Sweep(context.Background(), s.client, func(blob.Address) bool { return false })
			testkit.Check(t, err)
		})
	}
	running.Wait()
	mustRead(t, s, "the same")
	wantUsed(t, s, 8)
}
