package blob

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/powerfs"
)

// resume sends a content like a client that reads the offset after each error, and returns the errors.
func resume(t testing.TB, s *Store, u *Upload, content string, part int) (failed []error) {
	t.Helper()
	for range 10 {
		state := u.State()
		testkit.MustHold(t, state.Offset <= int64(len(content)), "the upload has", state.Offset, "bytes, more than were sent")
		var err error
		for err == nil && state.Offset < int64(len(content)) {
			err = u.Append(context.Background(), state.Offset, strings.NewReader(content[state.Offset:min(int(state.Offset)+part, len(content))]))
			state = u.State()
		}
		if err == nil {
			_, err = u.Finish(context.Background())
		}
		if err == nil {
			return failed
		}
		if failed = append(failed, err); errors.Is(err, ErrNotFound) {
			return failed
		}
	}
	t.Errorf("the upload does not end: %v", failed)
	return failed
}

// TestUploadFailedCalls makes each call fail once. The client continues after the error, and the blob is whole.
func TestUploadFailedCalls(t *testing.T) {
	testkit.OneByOne(t)
	content := random(11, 3*bufferBytes+5)
	for failAt := 1; ; failAt++ {
		rec := &recorder{}
		s := newStore(t, Options{Hooks: rec.hooks()})
		s.checkpointEvery = bufferBytes
		rec.calls, rec.failAt = nil, failAt
		u, err := s.NewUpload(t.Context(), "", int64(len(content)), Ref{})
		if err != nil {
			testkit.Failed(t, err, errInjected)
			mustBeTidy(t, s)
			continue
		}
		for _, err := range resume(t, s, u, content, 2*bufferBytes) {
			if !errors.Is(err, errInjected) && !errors.Is(err, ErrNotFound) {
				t.Errorf("%s fails: %v", rec.calls[failAt-1], err)
			}
			if errors.Is(err, ErrNotFound) { // it was removed with the name of the blob
				there, err := has(t, s, addressOf(content))
				testkit.Holds(t, !there && err == nil, "it is there", err)
				break
			}
		}
		if len(rec.calls) < failAt {
			testkit.Holds(t, failAt >= 20, "only", failAt, "calls")
			break
		}
		if u.State().Blob != nil {
			mustRead(t, s, content)
		} else if !strings.HasPrefix(rec.calls[failAt-1], "sync blobs/sha256") {
			t.Errorf("%s fails, and the upload is lost", rec.calls[failAt-1])
		}
		mustAddUp(t, s)
		rec.failAt = 0
		err = u.Remove(t.Context())
		testkit.Holds(t, err == nil || errors.Is(err, ErrNotFound), err)
		mustBeEmpty(t, s.uploadsDir())
		if t.Failed() {
			return
		}
	}
}

// TestUploadUnsureState: a state whose write failed may be on the disk even so. It must not count bytes that a later
// append has replaced.
func TestUploadUnsureState(t *testing.T) {
	s := newStore(t, Options{})
	u := mustNewUpload(t, s, 4, Ref{})
	id := u.State().ID
	s.h.Sync = func(f *os.File) error {
		if f.Name() == s.uploadsDir() {
			return errInjected
		}
		return f.Sync()
	}
	testkit.Failed(t, u.Append(t.Context(), 0, strings.NewReader("aaaa")), errInjected)
	s.h.Sync = func(f *os.File) error {
		if info, err := f.Stat(); f.Name() == s.dataPath(id) && (err != nil || info.Size() > 0) {
			return errInjected
		}
		return f.Sync()
	}
	testkit.Failed(t, u.Append(t.Context(), 0, strings.NewReader("bbbb")), errInjected)
	testkit.Equal(t, u.State().Offset, 0, "bytes of the upload")
	s = reopen(t, s, Options{}) // as after a crash
	u = mustFind(t, s, id)
	failed := resume(t, s, u, "bbbb", 4)
	testkit.Holds(t, len(failed) == 0, failed)
	mustRead(t, s, "bbbb")
}

// TestUploadFailedSyncThenCut: after a failed fsync the next fsync may succeed without writing the bytes that the first
// has not written.
func TestUploadFailedSyncThenCut(t *testing.T) {
	testkit.OneByOne(t)
	disk, mount := mountDisk(t)
	dir := filepath.Join(mount, "blobs")
	for seed := range uint64(8) {
		content := random(seed, 3*bufferBytes)
		s := mustOpen(t, dir, Options{})
		s.checkpointEvery = bufferBytes
		u := mustNewUpload(t, s, int64(len(content)), Ref{})
		mustAppend(t, u, content[:5000])
		disk.FailSyncs(1)
		testkit.Failed(t, u.Append(t.Context(), 5000, strings.NewReader(content[5000:])), "input/output error")
		disk.Cut(seed)
		s.Close() // fails, as everything does
		disk.PowerOn()
		s = mustOpen(t, dir, Options{})
		failed := resume(t, s, mustFind(t, s, u.State().ID), content, len(content))
		testkit.Holds(t, len(failed) == 0, failed)
		mustRead(t, s, content)
		testkit.NoError(t, s.Close())
	}
}

// TestUploadPowerCuts: bytes that an append has acknowledged survive a power cut, and the blob is whole in the end.
func TestUploadPowerCuts(t *testing.T) {
	testkit.OneByOne(t)
	disk, mount := mountDisk(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(mount, "blobs")
	finished := 0
	var id, content string
	var acknowledged int64
	for round := range 40 {
		moment := disk.CutAt(powerfs.Moment(rng.IntN(3)), 1+rng.IntN(60), rng.Uint64())
		s, err := OpenDir(t.Context(), dir, Options{})
		for err == nil {
			var u *Upload
			if id == "" {
				content = random(seed+uint64(round), 1+rng.IntN(100_000))
				if u, err = s.NewUpload(t.Context(), "", int64(len(content)), Ref{}); err != nil {
					break
				}
				id, acknowledged = u.State().ID, 0
			} else if u, err = s.Upload(t.Context(), "", id); err != nil {
				break
			}
			for err == nil && acknowledged < int64(len(content)) {
				to := min(acknowledged+1+rng.Int64N(50_000), int64(len(content)))
				if err = u.Append(t.Context(), acknowledged, strings.NewReader(content[acknowledged:to])); err == nil {
					acknowledged = to
				}
			}
			if err == nil {
				if _, err = u.Finish(t.Context()); err == nil {
					finished++
					id = ""
				}
			}
		}
		s = afterCut(t, disk, moment, rng.Uint64(), s, dir)
		if id != "" {
			u, err := s.Upload(t.Context(), "", id)
			switch {
			case err == nil:
				state := u.State()
				testkit.Holds(t, state.Offset >= acknowledged, acknowledged, "bytes were acknowledged, and", state.Offset, "are there")
				acknowledged = state.Offset
				failed := resume(t, s, u, content, 50_000)
				testkit.Holds(t, len(failed) == 0, failed)
				mustRead(t, s, content)
			case errors.Is(err, ErrNotFound):
				t.Errorf("an upload of %d bytes is lost: %v", acknowledged, err)
			default:
				t.Error(err)
			}
			id = ""
		}
		err = s.Close()
		testkit.MustHold(t, err == nil && !t.Failed(), err)
		disk.Cut(rng.Uint64())
		disk.PowerOn()
	}
	testkit.Holds(t, finished != 0, "no upload was finished before a cut")
	gone := disk.Unsynced()
	testkit.Holds(t, gone.Files != 0 && gone.Names != 0, "the cuts have lost", gone)
}
