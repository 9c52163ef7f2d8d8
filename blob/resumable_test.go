package blob

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

func mustNewUpload(t testing.TB, s *Store, size int64, want Ref) *Upload {
	t.Helper()
	u := testkit.Must(s.NewUpload(t.Context(), "", size, want))(t)
	state := u.State()
	testkit.Holds(t, len(state.ID) == 33 && state.Offset == 0 && state.Size == size && state.Blob == nil && !state.Busy, "a new upload is", state)
	return u
}

func mustAppend(t testing.TB, u *Upload, content string) {
	t.Helper()
	offset := u.State().Offset
	if err := u.Append(t.Context(), offset, strings.NewReader(content)); err != nil || u.State().Offset != offset+int64(len(content)) {
		t.Errorf("Append of %d bytes at %d: %v; the state is %+v", len(content), offset, err, u.State())
	}
}

func mustFinish(t testing.TB, s *Store, u *Upload, content string) {
	t.Helper()
	info := testkit.Must(u.Finish(t.Context()))(t)
	testkit.Holds(t, info.Address == addressOf(content) && info.Size == int64(len(content)), "Finish returned", info)
	mustRead(t, s, content)
	testkit.Equal(t, mustResolve(t, s, content), info.Address, "the SHA-1 leads elsewhere")
	state := u.State()
	testkit.Holds(t, state.Blob != nil && *state.Blob == info.Address, "a finished upload is", state)
}

func reopen(t testing.TB, s *Store, o Options) *Store {
	t.Helper()
	testkit.NoError(t, s.Close())
	return mustOpen(t, s.dir, o)
}

func mustFind(t testing.TB, s *Store, id string) *Upload {
	t.Helper()
	return testkit.Must(s.Upload(t.Context(), "", id))(t)
}

// TestUploadCutOff: bytes that arrived before a stream was cut off count, and only one append runs at a time.
func TestUploadCutOff(t *testing.T) {
	s := newStore(t, Options{})
	s.checkpointEvery = 2 * bufferBytes
	content := random(8, 4*bufferBytes)
	u := mustNewUpload(t, s, int64(len(content)), Ref{})
	for _, end := range []error{io.ErrUnexpectedEOF, context.Canceled} {
		offset := u.State().Offset
		testkit.Failed(t, u.Append(t.Context(), offset, io.MultiReader(strings.NewReader(content[offset:offset+100]), readerFunc(func([]byte) (int, error) { return 0, end }))), end)
		testkit.Equal(t, u.State().Offset, offset+100, "after", end, "bytes of the upload")
	}
	testkit.Failed(t, u.Append(canceled(), 200, strings.NewReader(content[200:])), context.Canceled)

	ctx, cancel := context.WithCancel(t.Context())
	reached, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- u.Append(ctx, 200, io.MultiReader(strings.NewReader(content[200:3*bufferBytes]), readerFunc(func(p []byte) (int, error) {
			close(reached)
			<-release
			return copy(p, "x"), nil
		})))
	}()
	<-reached
	testkit.Holds(t, u.State().Busy, "it is not busy")
	got := u.State().Offset
	testkit.Holds(t, got >= 2*bufferBytes, "after", 3*bufferBytes, "bytes only", got, "are durable")
	testkit.Failed(t, u.Append(t.Context(), u.State().Offset, strings.NewReader("")), ErrBusy)
	testkit.Failed(t, u.Remove(t.Context()), ErrBusy)
	testkit.Fails(u.Finish(t.Context()))(t, ErrBusy)
	swept, err := s.Sweep(t.Context(), "", nobody)
	testkit.Holds(t, swept == (Swept{}) && err == nil, "swept", swept, err)
	cancel() // as when the connection is lost
	close(release)
	testkit.Failed(t, <-ended, context.Canceled)
	testkit.Equal(t, u.State().Offset, 3*bufferBytes+1, "bytes of the upload")
	testkit.Check(t, u.Remove(t.Context()))
	mustBeTidy(t, s)
}

// TestUploadWaits: a call waits for another call that is storing received bytes, and not for a call that is still
// receiving.
func TestUploadWaits(t *testing.T) {
	s := newStore(t, Options{})
	u := mustNewUpload(t, s, int64(len(wilson)), Ref{})
	syncing, goOn := make(chan struct{}), make(chan struct{})
	first := true
	s.h.Sync = func(f *os.File) error {
		if first {
			first = false
			close(syncing)
			<-goOn
		}
		return f.Sync()
	}
	lost := make(chan error)
	go func() { // a connection that is lost after three bytes
		lost <- u.Append(context.Background(), 0, io.MultiReader(strings.NewReader(wilson[:3]), iotest.ErrReader(io.ErrUnexpectedEOF)))
	}()
	<-syncing
	next := make(chan error)
	go func() { next <- u.Append(context.Background(), 3, strings.NewReader(wilson[3:])) }()
	testkit.Failed(t, u.Append(canceled(), 3, strings.NewReader("")), context.Canceled)
	select {
	case err := <-next:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(2 * receivingPatience): // the wait for an end is longer
	}
	close(goOn)
	testkit.Failed(t, <-lost, io.ErrUnexpectedEOF)
	testkit.Check(t, <-next)
	mustFinish(t, s, u, wilson)

	// Two concurrent Finishes have one effect.
	content := random(20, 1000)
	u = mustNewUpload(t, s, int64(len(content)), Ref{})
	mustAppend(t, u, content)
	syncing, goOn, first = make(chan struct{}), make(chan struct{}), true
	finish := func() { _, err := u.Finish(context.Background()); next <- err }
	go finish()
	<-syncing
	go finish()
	close(goOn)
	testkit.Check(t, errors.Join(<-next, <-next))
	mustFinish(t, s, u, content)
}

// TestUploadMetadata: the metadata is kept across restarts and progress, also at its longest.
func TestUploadMetadata(t *testing.T) {
	s := newStore(t, Options{})
	for _, metadata := range []string{"filename d29ybGQ=", strings.Repeat("\x01", MaxMetadata)} {
		u := mustNewUpload(t, s, int64(len(wilson)), Ref{})
		for _, long := range []string{strings.Repeat("x", MaxMetadata+1), "\xff"} {
			testkit.Failed(t, u.Describe(t.Context(), long), ErrTooLarge)
		}
		testkit.NoError(t, u.Describe(t.Context(), metadata))
		same := func() {
			t.Helper()
			s = reopen(t, s, Options{})
			u = mustFind(t, s, u.State().ID)
			testkit.Equal(t, u.State().Metadata, metadata, "the metadata")
		}
		same()
		mustAppend(t, u, wilson[:2])
		same()
		mustAppend(t, u, wilson[2:])
		mustFinish(t, s, u, wilson)
		same()
		testkit.Failed(t, u.Describe(t.Context(), "x"), ErrOffset)
		testkit.Check(t, u.Remove(t.Context()))
		testkit.Failed(t, u.Describe(t.Context(), "x"), ErrNotFound)
	}
}

// FuzzUploadState: a store with any file in place of an upload's state opens, and continues or removes the upload.
func FuzzUploadState(f *testing.F) {
	o := Options{Hooks: Hooks{Sync: func(*os.File) error { return nil }}} // faster
	s := newStore(f, o)
	u := mustNewUpload(f, s, int64(len(wilson)), Ref{})
	mustAppend(f, u, wilson[:5])
	testkit.NoError(f, u.Describe(f.Context(), "filename d29ybGQ="))
	id := u.State().ID
	text := testkit.Must(os.ReadFile(s.statePath(id)))(f)
	f.Add(string(text))
	f.Add(strings.Replace(string(text), `"offset":5`, `"offset":-1`, 1))
	f.Add(strings.Replace(string(text), `"size":7`, `"size":3`, 1))
	f.Add(`{"blob":"sha256:` + servalHex + `"}`)
	f.Fuzz(func(t *testing.T, state string) {
		testkit.NoError(t, errors.Join(s.Close(), os.WriteFile(s.dataPath(id), []byte(wilson[:5]), 0o600), os.WriteFile(s.statePath(id), []byte(state), 0o600)))
		s = testkit.Must(OpenDir(t.Context(), s.dir, o))(t)
		if u, err := s.Upload(t.Context(), "", id); err == nil {
			got := u.State()
			testkit.Holds(t, got.Offset >= 0 && got.Offset <= 5 && len(got.Metadata) <= maxStateBytes, "it goes on with", got)
			_ = u.Append(t.Context(), u.State().Offset, strings.NewReader(wilson[u.State().Offset:])) // it may be refused
			if info, err := u.Finish(t.Context()); err == nil {
				var damaged *DamagedError // if the saved hash belongs to other bytes
				text, err := read(t, s, info.Address)
				testkit.Holds(t, errors.As(err, &damaged) || err == nil && addressOf(text) == info.Address, "it has stored", text, err)
				testkit.Check(t, s.Delete(t.Context(), "", info.Address))
			}
			_ = u.Remove(t.Context()) // ErrNotFound after ErrDigest
		} else if !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		mustBeEmpty(t, s.uploadsDir())
	})
}

func TestUploadLimits(t *testing.T) {
	free := uint64(1 << 40)
	s := newStore(t, Options{MaxBytes: 2 * bufferBytes, QuotaBytes: 3 * bufferBytes, Hooks: Hooks{Free: func(string) (uint64, uint64, error) { return free, 1 << 40, nil }}})
	s.maxUploads = 2
	refused := func(size int64, want error) {
		t.Helper()
		testkit.Fails(s.NewUpload(t.Context(), "", size, Ref{}))(t, want)
	}
	refused(2*bufferBytes+1, ErrTooLarge)
	large := random(9, 2*bufferBytes)
	mustPut(t, s, large)
	refused(bufferBytes+1, ErrQuota)
	free = 0
	refused(-1, ErrNoSpace)
	free = 1 << 40
	u := mustNewUpload(t, s, -1, Ref{})
	free = 0
	testkit.Failed(t, u.Append(t.Context(), 0, strings.NewReader("x")), ErrNoSpace)
	free = 1 << 40
	mustAppend(t, u, random(10, bufferBytes))
	testkit.Failed(t, u.Append(t.Context(), bufferBytes, strings.NewReader("x")), ErrQuota)
	testkit.Holds(t, s.Used() == 3*bufferBytes && u.State().Offset == bufferBytes, s.Used(), "bytes are used, the upload has", u.State().Offset)
	testkit.NoError(t, s.Delete(t.Context(), "", addressOf(large)))
	testkit.Failed(t, u.Append(t.Context(), bufferBytes, strings.NewReader(large[1:]+"xx")), ErrTooLarge)
	testkit.Check(t, u.Remove(t.Context()))
	u = mustNewUpload(t, s, int64(len(wilson)), Ref{})
	testkit.Failed(t, u.Append(t.Context(), 0, strings.NewReader(wilson+"x")), ErrTooLarge)
	testkit.Equal(t, u.State().Offset, 0, "a stream that is too long has made progress")
	mustAppend(t, u, wilson)
	second := mustNewUpload(t, s, 5, Ref{})
	refused(1, ErrUploads)
	mustFinish(t, s, u, wilson)
	third := mustNewUpload(t, s, 0, Ref{}) // in place of the finished one
	testkit.Fails(s.Upload(t.Context(), "", u.State().ID))(t, ErrNotFound)
	mustFinish(t, s, third, "")
	testkit.Check(t, errors.Join(second.Remove(t.Context()), third.Remove(t.Context())))
	mustBeTidy(t, s)
	testkit.Fails(s.NewUpload(canceled(), "", 1, Ref{}))(t, context.Canceled)
	x := SHA1{1}
	u = mustNewUpload(t, s, 1, Ref{SHA1: &x})
	s = reopen(t, s, Options{})
	u = mustFind(t, s, u.State().ID)
	mustAppend(t, u, "x")
	testkit.Fails(u.Finish(t.Context()))(t, ErrDigest)
}

// TestAllUploads: the uploads of all clients have a bound, and a new upload takes the place of finished ones of any client.
func TestAllUploads(t *testing.T) {
	s := newStore(t, Options{})
	s.maxAllUploads = 2
	begin := func(client string) (*Upload, error) { return s.NewUpload(t.Context(), client, 0, Ref{}) }
	a := testkit.Must(begin("a"))(t)
	b := testkit.Must(begin("b"))(t)
	for _, client := range []string{"", "a", "c"} {
		testkit.Fails(begin(client))(t, ErrUploads)
	}
	testkit.Must(a.Finish(t.Context()))(t)
	s = reopen(t, s, Options{})
	s.maxAllUploads = 2
	testkit.Must(s.Upload(t.Context(), "b", b.State().ID))(t)
	c := testkit.Must(begin("c"))(t)
	testkit.Fails(s.Upload(t.Context(), "a", a.State().ID))(t, ErrNotFound)
	testkit.Check(t, c.Remove(t.Context()))
	mustAddUp(t, s)
}

// TestUploadExpiry: an upload ends 24 hours after its last progress.
func TestUploadExpiry(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	o := Options{Hooks: Hooks{Now: c.now}}
	s := newStore(t, o)
	s.maxUploads = 1
	u := mustNewUpload(t, s, 10, Ref{})
	c.at = c.at.Add(UploadExpiry)
	mustAppend(t, mustFind(t, s, u.State().ID), "12345")
	c.at = c.at.Add(UploadExpiry)
	swept, err := s.Sweep(t.Context(), "", nobody)
	testkit.Holds(t, swept.Uploads == 0 && err == nil, "swept", swept, err)
	mustFind(t, s, u.State().ID)
	c.at = c.at.Add(1)
	testkit.Fails(s.Upload(t.Context(), "", u.State().ID))(t, ErrNotFound)
	swept, err = s.Sweep(t.Context(), "", nobody)
	testkit.Holds(t, swept.Uploads == 1 && err == nil, "swept", swept, err)
	mustBeTidy(t, s)

	mustNewUpload(t, s, 10, Ref{})
	c.at = c.at.Add(UploadExpiry + 1)
	u = mustNewUpload(t, s, 10, Ref{}) // in place of the expired one
	mustAppend(t, u, "12345")
	c.at = c.at.Add(UploadExpiry + 1)
	s = reopen(t, s, o)
	mustBeTidy(t, s)
}

// TestUploadFiles: files that a killed process or an accident has left of an upload are continued or removed.
func TestUploadFiles(t *testing.T) {
	for name, change := range map[string]func(data, state string) error{
		"more bytes than were acknowledged": func(data, _ string) error {
			f, err := os.OpenFile(data, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("not durable")
			return errors.Join(err, f.Close())
		},
		"fewer bytes":    func(data, _ string) error { return os.Truncate(data, 4) },
		"no bytes":       func(data, _ string) error { return os.Remove(data) },
		"no state":       func(_, state string) error { return os.Remove(state) },
		"an empty state": func(_, state string) error { return os.Truncate(state, 0) },
		"a long state":   func(_, state string) error { return os.WriteFile(state, make([]byte, maxStateBytes+1), 0o600) },
		"a state with no hash": func(_, state string) error {
			return os.WriteFile(state, []byte(`{"size":10,"offset":5,"changed":"2100-01-01T00:00:00Z"}`), 0o600)
		},
		"a negative offset": func(_, state string) error {
			return os.WriteFile(state, []byte(`{"size":10,"offset":-5,"changed":"2100-01-01T00:00:00Z"}`), 0o600)
		},
		"a directory": func(data, _ string) error { return errors.Join(os.Remove(data), os.Mkdir(data, 0o700)) },
		"a link": func(data, _ string) error {
			return errors.Join(os.Rename(data, data+"-elsewhere"), os.Symlink(data+"-elsewhere", data))
		},
		"a link for the state": func(_, state string) error {
			return errors.Join(os.Rename(state, state+"-elsewhere"), os.Symlink(state+"-elsewhere", state))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, Options{})
			u := mustNewUpload(t, s, 10, Ref{})
			mustAppend(t, u, "12345")
			id := u.State().ID
			testkit.NoError(t, change(s.dataPath(id), s.statePath(id)))
			s = reopen(t, s, Options{})
			u, err := s.Upload(t.Context(), "", id)
			if name != "more bytes than were acknowledged" {
				testkit.Failed(t, err, ErrNotFound)
				mustBeTidy(t, s)
				return
			}
			testkit.NoError(t, err)
			testkit.MustEqual(t, s.Used(), 5, "bytes are used")
			info := testkit.Must(os.Stat(s.dataPath(id)))(t)
			testkit.Equal(t, info.Size(), 5, "the file is not cut to what counts:", info)
			mustAppend(t, u, "67890")
			mustFinish(t, s, u, "1234567890")
		})
	}
	s := newStore(t, Options{})
	for _, id := range []string{"", "../blobs", "../../x", strings.Repeat("0", 32), "."} {
		testkit.Fails(s.Upload(t.Context(), "", id))(t, ErrNotFound)
	}
}
