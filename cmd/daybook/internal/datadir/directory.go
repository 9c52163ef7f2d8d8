package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/daybookq/daybook/cluster"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// Directory is the data directory of a server that does not run.
type Directory struct {
	Path string
	Node *cluster.Stopped // nil: a single server
}

// Find returns the data directory at a path. If it has no data, or only a part, the error is an ingest.ErrNoJournal or a
// cluster.ErrNoLog with the next step.
func Find(path string) (*Directory, error) {
	node, err := cluster.OpenStopped(cluster.DirOf(path))
	if err != nil || node != nil {
		return &Directory{path, node}, err
	}
	there, err := ingest.HasJournal(path)
	if err == nil && !there {
		err = ingest.ErrNoJournal
		if outer := inside(path); outer != "" {
			err = fmt.Errorf("%w; next step: give --data %s, which it is a part of", err, outer)
		} else if _, failed := os.Stat(cluster.DirOf(path)); failed == nil {
			err = fmt.Errorf("%w, and its node has not joined a cluster yet; next step: start the node with --join again, or delete the directory", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a data directory: %w", path, err)
	}
	return &Directory{Path: path}, nil
}

// inside returns the data directory that a directory is a part of, or "".
func inside(path string) string {
	path, err := filepath.Abs(path)
	for range 4 { // the log of a node is the deepest part: cluster/0/log/VOLUME
		outer := filepath.Dir(path)
		if err != nil || outer == path {
			return ""
		}
		if part := filepath.Base(path); part == "journal" || part == "store" || part == "cluster" {
			if d, err := Find(outer); err == nil {
				return d.Path
			}
		}
		path = outer
	}
	return ""
}

// Lock locks the directory, so that no server writes the log meanwhile. A half-written group would look like damage.
func (d *Directory) Lock() (release func() error, err error) {
	lock, err := ingest.Lock(d.Path)
	if err != nil {
		return nil, err
	}
	return lock.Close, nil
}

// SingleOnly returns an error if the directory has the data of a node, with the reason why a command refuses these and the
// next step.
func (d *Directory) SingleOnly(why string) error {
	if d.Node == nil {
		return nil
	}
	return terminal.Usagef("%s has the data of node %s of a cluster; %s", d.Path, d.Node.Identity.Node, why)
}

// Commands yields the commands from a seq on, in order. Those of a node end at the commit index. The iteration ends with an
// error at the first damage.
func (d *Directory) Commands(from uint64) iter.Seq2[journal.Record, error] {
	if d.Node != nil {
		return d.Node.Commands(from)
	}
	return journal.Scan(ingest.JournalDir(d.Path), from)
}

// Verify reads the whole log. The report is about the records of its files; d.Node.Log describes the entries of a node
// then. Damage is in the report.
func (d *Directory) Verify() (journal.Report, error) {
	if d.Node != nil {
		return d.Node.Verify()
	}
	return journal.Verify(ingest.JournalDir(d.Path))
}

// Checked is the result of Check.
type Checked struct {
	Problems int
	// Of a node: the last entry that the store includes now, and the entries after it, which are not known to be committed.
	Index, Waiting uint64
}

// Check applies the log to the store and reports each problem of the store; see ingest.Check. For a node, it applies the
// commands up to the commit index, and first checks the log and whether the store is one of this log.
func (d *Directory) Check(ctx context.Context, report func(problem string) bool) (c Checked, err error) {
	if d.Node == nil {
		c.Problems, err = ingest.Check(ctx, d.Path, report)
		return c, err
	}
	release, err := d.Lock()
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, release()) }()
	for _, err := range journal.UntilDiscarded(d.Node.Commands(1)) {
		if err != nil {
			return c, err
		}
	}
	s, err := store.Peek(ingest.StoreDir(d.Path), store.Options{})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	if err := d.Node.Holds(s.Journal, &s.Cluster); err != nil {
		return c, err
	}
	found, err := ingest.InspectRecords(ctx, d.Path, func(from uint64) iter.Seq2[journal.Record, error] { return d.after(from, &s.Cluster) }, report)
	c.Problems, c.Index = found.Problems, max(s.Cluster.Index, d.Node.Log.Commit)
	c.Waiting = d.Node.Log.Last - min(c.Index, d.Node.Log.Last)
	return c, err
}

// after yields the commands of a node from a seq on, which its store lacks. The store includes the entries of a state.
func (d *Directory) after(from uint64, state *job.Cluster) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		next := from
		for r, err := range journal.UntilDiscarded(d.Node.Commands(from)) {
			if err == nil && (r.Seq != next || r.Place.Index != 0 && r.Place.Index <= state.Index) {
				err = fmt.Errorf("%w: the store has applied the commands up to %d and includes entry %d, and the log goes on with command %d",
					journal.ErrCursor, next-1, state.Index, r.Seq)
			}
			if next++; !yield(r, err) || err != nil {
				return
			}
		}
	}
}
