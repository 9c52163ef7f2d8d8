package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/runner/container"
)

// stepTimeout bounds the report of a step, because the run waits for the report.
const stepTimeout = 2 * time.Second

// filesets gives containers access to the server's filesets. A job reads its client's fileset or, if the client lacks
// one of that name, the shared one. It writes only its client's, so that no client changes the files that other clients
// read. A job that was created without a client writes the shared one.
type filesets struct {
	*client.Client
	moved *movedFiles
}

// movedFiles counts the files of filesets that were moved between the server and this machine.
type movedFiles struct {
	mu             sync.Mutex
	pulled, pushed files.Moved // all jobs together
}

func (m *movedFiles) add(to *files.Moved, some files.Moved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	to.Files += some.Files
	to.Skipped += some.Skipped
	to.Bytes += some.Bytes
}

func (m *movedFiles) sums() (pulled, pushed files.Moved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pulled, m.pushed
}

func (f filesets) Pull(ctx context.Context, of, name string, version int, patterns []string, dir string, fits func(*fileset.Manifest) error) (int, error) {
	q := files.FilesetQuery{Version: version, Patterns: patterns}
	from := owner(of)
	if from != "" {
		switch history, err := f.Filesets(from).History(ctx, name); {
		case errors.Is(err, client.ErrNotFound) || err == nil && history[0].Deleted:
			from = ""
		case err != nil:
			return 0, err
		}
	}
	m, got, err := f.Filesets(from).Manifest(ctx, name, q)
	if err == nil {
		err = fits(m)
	}
	if err == nil {
		var moved files.Moved
		moved, err = f.Filesets(from).PullManifest(ctx, m, dir)
		f.moved.add(&f.moved.pulled, moved)
	}
	return got, err
}

func (f filesets) Push(ctx context.Context, of, name string, patterns []string, dir string) (int, error) {
	made, moved, err := f.Filesets(owner(of)).Push(ctx, name, dir, patterns)
	f.moved.add(&f.moved.pushed, moved)
	return made.Version, err
}

// logs sends the output of runs to the server.
type logs struct{ *client.Client }

func (l logs) Append(ctx context.Context, jobID, claimID string, offset int64, p []byte) error {
	return l.AppendLog(ctx, jobID, claimID, offset, p)
}

// containerSettings returns the settings of containers, connected to the server's blobs, logs and filesets.
func containerSettings(s *Settings, moved *movedFiles) container.Settings {
	c := s.Containers
	c.Runner, c.Log = s.ID, s.Log
	c.Blobs, c.Logs = blobs{s.Client}, logs{s.Client}
	c.Filesets = filesets{s.Client, moved}
	c.Step = func(ctx context.Context, jobID, claimID, step string) {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		if _, err := s.Client.Tickle(ctx, jobID, client.TickleOptions{ClaimID: claimID, Step: step}); err != nil {
			s.Log.Debug("the step of a job could not be reported", "job_id", jobID, "step", step, "error", err)
		}
	}
	return c
}
