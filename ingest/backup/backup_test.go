package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// source is a running engine to back up. Its journal has small volumes, and its store small tables.
type source struct {
	*ingest.Engine
	t   *testing.T
	dir string
}

func startSource(t *testing.T, retain int64) *source {
	t.Helper()
	s := &source{t: t, dir: t.TempDir()}
	s.Engine = testkit.Must(ingest.Open(ingest.Options{
		Dir: s.dir, JournalRetain: retain,
		Journal: journal.Options{SegmentBytes: 16 << 10, VolumeBytes: 64 << 10}, Store: store.Options{MemtableBytes: 256 << 10},
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); testkit.Check(t, <-ended) })
	for s.Ready() != nil {
		if t.Context().Err() != nil {
			t.FailNow()
		}
	}
	return s
}

// create creates n jobs with payloads that name the batch, and returns the id of the first.
func (s *source) create(ctx context.Context, n int, name string) (job.ID, error) {
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, "%s line %d\n", name, i)
	}
	payloads, _, longest := job.TrimLines([]byte(body.String()))
	made, _, err := s.Create(ctx, &job.Create{Frame: job.LineFrame, Longest: longest, Payloads: payloads, Groups: []job.Group{{
		Lines: n, Client: "default", Type: "default", Attributes: job.Attributes{Kind: job.Text, Priority: 4, MaxAttempts: 3, LeaseMs: 60_000,
			Backoff: job.Backoff{InitialMs: 1000, FactorMilli: 2000, MaxMs: 10_000}, RetentionMs: 1_000_000},
	}}})
	return made.Batch, err
}

// stream is a server's answer with a backup.
func (s *source) stream(ctx context.Context) (io.ReadCloser, error) {
	snapshot, err := s.Snapshot()
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := Write(ctx, w, snapshot, "test")
		err = errors.Join(err, snapshot.Close())
		w.CloseWithError(err) // nil is the end of the stream
	}()
	return waiting{r, ended}, nil
}

// waiting is a stream whose Close waits for its writer.
type waiting struct {
	*io.PipeReader
	ended chan struct{}
}

func (w waiting) Close() error {
	err := w.PipeReader.Close()
	<-w.ended
	return err
}

// captured returns a whole stream.
func (s *source) captured() []byte {
	s.t.Helper()
	r := testkit.Must(s.stream(s.t.Context()))(s.t)
	return testkit.Must(io.ReadAll(r))(s.t)
}

func streamOf(content []byte) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
}

func mustMake(t *testing.T, dir string, stream func(context.Context) (io.ReadCloser, error), blobs BlobSource, keep int) Made {
	t.Helper()
	return testkit.Must(tryMake(t, dir, stream, blobs, keep))(t)
}

func tryMake(t *testing.T, dir string, stream func(context.Context) (io.ReadCloser, error), blobs BlobSource, keep int) (Made, error) {
	t.Helper()
	d := testkit.Must(OpenDirectory(dir, true))(t)
	defer func() { testkit.Check(t, d.Close()) }()
	made, err := d.Make(t.Context(), stream, blobs, keep)
	if err == nil {
		_, err = d.SweepBlobs(t.Context())
	}
	return made, err
}

// digestAt returns the digest of the state after the records of a data directory up to a seq. It starts from the
// directory's store or, if fresh is set, from an empty store.
func digestAt(t *testing.T, data, uuid string, through uint64, fresh bool) string {
	t.Helper()
	dir := t.TempDir()
	if !fresh {
		testkit.NoError(t, os.CopyFS(dir, os.DirFS(ingest.StoreDir(data))))
	}
	s := testkit.Must(store.Open(dir, store.Options{Journal: uuid}))(t)
	defer s.Close()
	records := func(yield func(journal.Record, error) bool) {
		for r, err := range journal.Scan(ingest.JournalDir(data), s.Applied()+1) {
			if err == nil && r.Seq > through || !yield(r, err) {
				return
			}
		}
	}
	testkit.Must(ingest.Replay(t.Context(), s, records, func(uint64, uint64) {}))(t)
	testkit.MustEqual(t, s.Applied(), through, "the state", data, "is at")
	sum, rows := testkit.Must2(s.Digest())(t)
	return fmt.Sprintf("%x %v", sum, rows)
}

// TestBackupsOfABusyServer: backups are made while jobs are created, claimed and completed. Each restored backup has
// every job that was acknowledged before it began, byte for byte, and its state equals the state that the original
// journal leads to at the same seq.
func TestBackupsOfABusyServer(t *testing.T) {
	s := startSource(t, 1<<40)
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[job.ID]string{}
	for worker := range 3 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("producer %d batch %d", worker, i)
				id, err := s.create(ctx, 20, name)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged[id] = name
				mu.Unlock()
			}
		})
	}
	load.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			claimed, _, _, err := s.Claim(ctx, job.Claim{Runner: "r", Max: 7, MaxBytes: job.MaxClaimBytes}, 0)
			if err != nil || len(claimed.Runs) == 0 || i%3 == 0 {
				continue
			}
			outcome := &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: []byte(fmt.Sprint("output ", i))}}
			if i%3 == 1 {
				outcome = &job.Outcome{Code: job.Retry, ExitCode: 100, DelayMs: -1, Error: "later"}
			}
			_, _, err = s.Complete(ctx, job.Complete{Claim: claimed.Claim, All: outcome})
			testkit.Holds(t, err == nil || ctx.Err() != nil, err)
		}
	})
	dir := t.TempDir()
	type made struct {
		Made
		had map[job.ID]string
	}
	var all []made
	for n := range 3 {
		testkit.NoError(t, s.CatchUp(t.Context(), uint64(100*(n+1)))) // the load continues
		mu.Lock()
		had := map[job.ID]string{}
		for id, name := range acknowledged {
			had[id] = name
		}
		mu.Unlock()
		all = append(all, made{mustMake(t, dir, s.stream, nil, 0), had})
	}
	cancel()
	load.Wait()
	uuid := s.Stats().Journal.UUID
	for i, m := range all {
		data := filepath.Join(t.TempDir(), "data")
		restored := testkit.Must(Restore(t.Context(), m.Path, data, RestoreOptions{}))(t)
		last := m.Verified.Last
		testkit.Holds(t, restored.Applied >= last && restored.Journal == uuid && len(m.had) != 0, "backup", i, restored)
		got, want := digestAt(t, data, uuid, last, false), digestAt(t, s.dir, uuid, last, true)
		testkit.Equal(t, got, want, "backup", i, "the state at seq", last, "beside the original")
		e := testkit.Must(ingest.Open(ingest.Options{Dir: data}))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		testkit.NoError(t, waitReady(t, e))
		for id, name := range m.had {
			for line := range 20 {
				j, err := e.Queries().Job(id.WithLine(line))
				want := fmt.Sprintf("%s line %d", name, line)
				testkit.MustHold(t, err == nil && string(j.Payload) == want, "backup", i, want, "payload", j.Payload, err)
			}
		}
		problems, err := e.Check(func(p string) bool { t.Error(p); return true })
		testkit.Holds(t, problems == 0 && err == nil, "backup", i, problems, "problems", err)
		stop()
		testkit.Check(t, <-ended)
	}
}

func waitReady(t *testing.T, e *ingest.Engine) error {
	for e.Ready() != nil {
		if err := t.Context().Err(); err != nil {
			return err
		}
	}
	return nil
}

// fakeBlobs are the blobs of a server.
type fakeBlobs struct {
	mu      sync.Mutex
	of      map[string]map[string][]byte // by client and address
	gets    int
	damaged map[string]bool // addresses
	between func()          // called after the first list
}

func (f *fakeBlobs) put(client, content string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]map[string][]byte{}
	}
	if f.of[client] == nil {
		f.of[client] = map[string][]byte{}
	}
	address := addressOf(content)
	f.of[client][address] = []byte(content)
	return address
}

func (f *fakeBlobs) Clients(context.Context) (names []string, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.of {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (f *fakeBlobs) List(_ context.Context, client string) iter.Seq2[BlobInfo, error] {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []BlobInfo
	for address, content := range f.of[client] {
		list = append(list, BlobInfo{address, int64(len(content))})
	}
	between := f.between
	f.between = nil
	return func(yield func(BlobInfo, error) bool) {
		if between != nil {
			between()
		}
		for _, info := range list {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (f *fakeBlobs) Get(_ context.Context, client, address string) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, ok := f.of[client][address]
	if !ok {
		return nil, ErrBlobGone
	}
	if f.damaged[address] {
		return io.NopCloser(io.MultiReader(bytes.NewReader(content[:1]), iotest.ErrReader(ErrBlobDamaged))), nil
	}
	f.gets++
	return io.NopCloser(bytes.NewReader(content)), nil
}

// TestBlobs: a backup has the blobs of all clients. Repeated backups fetch only new blobs. A blob that the server removes
// during the backup is left out. Removing old backups also removes the blobs that only they had.
func TestBlobs(t *testing.T) {
	s := startSource(t, 0)
	dir := t.TempDir()
	f := &fakeBlobs{}
	for i := range 20 {
		f.put("", fmt.Sprint("shared ", i))
		f.put("acme", fmt.Sprint("of acme ", i))
	}
	first := mustMake(t, dir, s.stream, f, 2)
	n, _ := first.Verified.Blobs.Count()
	testkit.Holds(t, n == 40 && first.NewBlobs == 40, n, "blobs", first.NewBlobs, "are new")
	gone := f.put("acme", "goes")
	f.put("new client", "x")
	delete(f.of, "new client")
	f.put("bob", "of bob")
	f.between = func() {
		f.mu.Lock()
		delete(f.of["acme"], gone)
		f.mu.Unlock()
		f.put("", "arrives") // after the list of the shared blobs
	}
	f.gets = 0
	second := mustMake(t, dir, s.stream, f, 2)
	n, _ = second.Verified.Blobs.Count()
	testkit.Holds(t, n == 42 && second.NewBlobs == 2 && f.gets == 2, n, "blobs", second.NewBlobs, "are new", f.gets, "were fetched")
	data := filepath.Join(t.TempDir(), "data")
	testkit.Must(Restore(t.Context(), second.Path, data, RestoreOptions{}))(t)
	store := testkit.Must(blob.OpenDir(t.Context(), filepath.Join(data, "blobs"), blob.Options{ReserveBytes: 1}))(t)
	for client, all := range f.of {
		for address, want := range all {
			ref := testkit.Must(blob.Parse(address))(t)
			b, err := store.Get(t.Context(), client, *ref.SHA256)
			testkit.NoError(t, err, client, want)
			got := testkit.Must(io.ReadAll(b))(t)
			testkit.Holds(t, bytes.Equal(got, want), got, "want", want)
			testkit.Check(t, b.Close())
		}
	}
	testkit.Check(t, store.Close())

	clear(f.of[""])
	third := mustMake(t, dir, s.stream, f, 2)
	testkit.EqualSlices(t, third.Removed, []string{first.Path}, "removed")
	for _, path := range []string{second.Path, third.Path} {
		testkit.Must(Verify(t.Context(), path, true))(t)
	}
	mustMake(t, dir, s.stream, f, 1)
	left := testkit.Must(filepath.Glob(filepath.Join(dir, blobsDir, "blobs", "sha256", "*")))(t)
	testkit.Equal(t, len(left), 0, "blobs that no backup has are left")
	testkit.Must(tryMake(t, dir, s.stream, nil, 0))(t)
	left, err := filepath.Glob(filepath.Join(dir, blobsDir, "clients", "acme", "blobs", "sha256", "*"))
	testkit.Holds(t, err == nil && len(left) == 20, "the blobs of the backup before are", len(left), err)
}

// TestDamagedBlobOfAServer: a blob that is damaged on the server is left out and reported, and the backup has the rest.
// When the blob is repaired, the next backup has it.
func TestDamagedBlobOfAServer(t *testing.T) {
	s := startSource(t, 0)
	dir := t.TempDir()
	f := &fakeBlobs{}
	f.put("", "right")
	f.damaged = map[string]bool{f.put("", "damaged"): true}
	made := mustMake(t, dir, s.stream, f, 0)
	n, _ := made.Verified.Blobs.Count()
	testkit.Holds(t, n == 1 && slices.Equal(made.Damaged, []string{addressOf("damaged")}), n, "blobs, damaged", made.Damaged)
	testkit.Must(Verify(t.Context(), made.Path, true))(t)
	f.damaged = nil
	made = mustMake(t, dir, s.stream, f, 0)
	n, _ = made.Verified.Blobs.Count()
	testkit.Holds(t, n == 2 && len(made.Damaged) == 0, n, "blobs, damaged", made.Damaged)
}

// TestNames: backups are in the order in which they were made, even if the clock of the server was set back. The oldest
// are removed, and other files in the directory stay.
func TestNames(t *testing.T) {
	s := startSource(t, 0)
	dir := t.TempDir()
	future := filepath.Join(dir, "29991231T235959.000Z")
	testkit.NoError(t, os.Rename(mustMake(t, dir, s.stream, nil, 0).Path, future))
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600))
	second := mustMake(t, dir, s.stream, nil, 0)
	testkit.Equal(t, filepath.Base(second.Path), "29991231T235959.001Z", "the second backup", second.Path)
	path, unlock := testkit.Must2(Find(dir))(t)
	testkit.Holds(t, path == second.Path && unlock() == nil, "the newest is", path)
	path, unlock = testkit.Must2(Find(future))(t)
	testkit.Holds(t, path == future && unlock() == nil, path)
	testkit.EqualSlices(t, mustMake(t, dir, s.stream, nil, 1).Removed, []string{future, second.Path}, "removed")
	testkit.Equal(t, len(testkit.Must(os.ReadDir(dir))(t)), 2)
	testkit.Fails2(Find(t.TempDir()))(t, ErrNoBackup)
	testkit.Fails2(Find(filepath.Join(dir, "none")))(t, ErrNoBackup)
}

// TestOneAtATime: the directory of the backups is locked while a backup is made or restored.
func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	d := testkit.Must(OpenDirectory(dir, true))(t)
	testkit.Fails(OpenDirectory(dir, true))(t, ErrInUse)
	testkit.Fails2(Find(dir))(t, ErrInUse)
	testkit.Check(t, d.Close())
}

// TestFilesInCommon: a table that an earlier backup has is stored once, but a damaged table is not used again.
func TestFilesInCommon(t *testing.T) {
	s := startSource(t, 0)
	testkit.Must(s.create(t.Context(), 1000, "x"))(t)
	dir := t.TempDir()
	table := func(m Made) string {
		i := slices.IndexFunc(m.Verified.Files, func(f File) bool { return strings.HasSuffix(f.Path, ".sst") })
		testkit.MustHold(t, i >= 0, "no tables in", m.Verified.Files)
		return filepath.Join(m.Path, m.Verified.Files[i].Path)
	}
	first, second := mustMake(t, dir, s.stream, nil, 0), mustMake(t, dir, s.stream, nil, 0)
	same := func() bool {
		a, err1 := os.Stat(table(first))
		b, err2 := os.Stat(table(second))
		return errors.Join(err1, err2) == nil && os.SameFile(a, b)
	}
	for n := 0; n < 5 && !same(); n++ { // the store may replace its tables between two backups
		first, second = second, mustMake(t, dir, s.stream, nil, 0)
	}
	testkit.Holds(t, same(), "the table is stored twice")
	flip(t, table(second), 100)
	testkit.Must(Verify(t.Context(), mustMake(t, dir, s.stream, nil, 0).Path, true))(t)
}

// flip changes a bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	content := testkit.Must(os.ReadFile(path))(t)
	content[at%int64(len(content))] ^= 1
	testkit.NoError(t, os.WriteFile(path, content, 0o640))
}

// TestDamage: if any byte of any file of a backup is changed, or any file is missing, cut or added, Verify and Restore
// fail, and nothing is restored.
func TestDamage(t *testing.T) {
	testkit.OneByOne(t)
	s := startSource(t, 0)
	testkit.Must(s.create(t.Context(), 500, "x"))(t)
	f := &fakeBlobs{}
	f.put("", "a blob")
	f.put("acme", "another")
	dir := t.TempDir()
	made := mustMake(t, dir, s.stream, f, 0)
	refused := func(what string) {
		t.Helper()
		_, err := Verify(t.Context(), made.Path, true)
		testkit.Holds(t, errors.Is(err, ErrDamaged), what, "Verify", err)
		parent := t.TempDir()
		data := filepath.Join(parent, "data")
		_, err = Restore(t.Context(), made.Path, data, RestoreOptions{})
		testkit.Holds(t, errors.Is(err, ErrDamaged), what, "Restore", err)
		left := testkit.Must(os.ReadDir(parent))(t)
		testkit.Holds(t, len(left) == 0, what, "Restore has left", left)
	}
	var files []string
	for _, root := range []string{made.Path, filepath.Join(dir, blobsDir, "blobs"), filepath.Join(dir, blobsDir, "clients", "acme", "blobs")} {
		testkit.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		}))
	}
	testkit.MustHold(t, len(files) >= 10, "only", files)
	for _, path := range files {
		content := testkit.Must(os.ReadFile(path))(t)
		name := strings.TrimPrefix(path, dir)
		put := func(b []byte) { testkit.NoError(t, os.WriteFile(path, b, 0o640)) }
		if n := len(content); n > 0 {
			for _, at := range []int{0, n / 3, n - 1, rand.IntN(n)} {
				flip(t, path, int64(at))
				refused(fmt.Sprintf("%s byte %d", name, at))
				put(content)
			}
			put(content[:n-1])
			refused(name + " cut")
		}
		put(append(slices.Clone(content), 'x'))
		refused(name + " longer")
		testkit.NoError(t, os.Remove(path))
		refused(name + " missing")
		testkit.NoError(t, os.Symlink("/etc/hostname", path))
		refused(name + " a link")
		testkit.NoError(t, os.Remove(path))
		put(content)
	}
	testkit.Must(Verify(t.Context(), made.Path, true))(t)
	testkit.Must(Restore(t.Context(), made.Path, filepath.Join(t.TempDir(), "data"), RestoreOptions{}))(t)
}

// TestAddedFiles: Verify refuses files that are not in the manifest, and Restore does not copy them.
func TestAddedFiles(t *testing.T) {
	s := startSource(t, 0)
	made := mustMake(t, t.TempDir(), s.stream, nil, 0)
	for _, name := range []string{"store/999999.sst", "journal/00000000000000000009/00000000000000000009"} {
		path := filepath.Join(made.Path, name)
		testkit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte("x"), 0o640)))
		_, err := Verify(t.Context(), made.Path, true)
		testkit.Holds(t, errors.Is(err, ErrDamaged), "with", name, err)
		data := filepath.Join(t.TempDir(), "data")
		_, err = Restore(t.Context(), made.Path, data, RestoreOptions{})
		testkit.Check(t, err, "with", name)
		_, err = os.Lstat(filepath.Join(data, name))
		testkit.Holds(t, os.IsNotExist(err), name, "was restored", err)
		testkit.NoError(t, os.Remove(path))
	}
}

// TestVerifyEnds: a verification that is cancelled does not report a damaged backup.
func TestVerifyEnds(t *testing.T) {
	s := startSource(t, 0)
	testkit.Must(s.create(t.Context(), 100, "x"))(t)
	made := mustMake(t, t.TempDir(), s.stream, nil, 0)
	m, _ := testkit.Must2(open(made.Path))(t)
	ctx, end := context.WithCancel(t.Context())
	end()
	_, err := verifyContent(ctx, made.Path, m)
	testkit.Holds(t, errors.Is(err, context.Canceled) && !errors.Is(err, ErrDamaged), "verification", err)
	_, err = Verify(ctx, made.Path, true)
	testkit.Holds(t, errors.Is(err, context.Canceled) && !errors.Is(err, ErrDamaged), "verification", err)
	_, err = Restore(ctx, made.Path, filepath.Join(t.TempDir(), "data"), RestoreOptions{})
	testkit.Holds(t, errors.Is(err, context.Canceled) && !errors.Is(err, ErrDamaged), "restore", err)
}
