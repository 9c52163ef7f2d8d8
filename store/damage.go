package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/job"
)

// ErrDamaged: a file of the store is not what was written, or is not there. What could be read is right all the same: every block has a
// checksum.
var ErrDamaged = errors.New("the store is damaged")

// nextRebuild is the operator's next step.
const nextRebuild = "next step: stop the server and put that file back from a copy, or run `daybook rebuild`, which makes the store anew from the journal and keeps this one; where the journal no longer begins at 1 it wants a backup of the store as --base"

// shutOut tells what has nothing to do with damage: the reason is in the way, and is said already.
func shutOut(err error) bool {
	for _, reason := range []error{
		syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// openError is what an open that failed is told as.
func openError(files vfs.FS, dir string, err error) error {
	if shutOut(err) {
		return fmt.Errorf("open store %s: %w", dir, err)
	}
	if torn := tornManifest(files, dir); torn != "" {
		err = fmt.Errorf("%w; %s", err, torn)
	}
	return fmt.Errorf("open store: %w: directory %s: %w; %s", ErrDamaged, dir, err, nextRebuild)
}

// Is reports an error of reading what is damaged as ErrDamaged.
func (e *Error) Is(target error) bool {
	return target == ErrDamaged && (pebble.IsCorruptionError(e.Err) || errors.Is(e.Err, errShortRow) || errors.Is(e.Err, errContradiction))
}

// Error says what failed; of damage, in which file, and what to do.
func (e *Error) Error() string {
	text := fmt.Sprintf("store: %s: %v", e.Op, e.Err)
	if !errors.Is(e, ErrDamaged) {
		return text
	}
	if info := pebble.ExtractDataCorruptionInfo(e.Err); info != nil {
		text = fmt.Sprintf("store: %s: file %s: %v", e.Op, info.Path, info.Details)
	}
	return text + "; " + nextRebuild
}

// checkMark refuses a directory that has tables and no mark that points to a manifest. Pebble would take it for a new store, and remove
// the tables that no new store knows. A manifest alone is what a first open leaves that was cut short.
func checkMark(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return nil // there is none yet, or Pebble says why not
	}
	tables, mark := "", false
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			tables = name
		}
		mark = mark || strings.HasPrefix(name, markPrefix+"manifest.")
	}
	if tables != "" && !mark {
		return fmt.Errorf("it holds %s, and no file %smanifest.* that says which manifest is in force", tables, markPrefix)
	}
	return nil
}

// known refuses what a newer version of the program wrote.
func (m *meta) known() error {
	if m.version > formatVersion || m.level > job.Level {
		return fmt.Errorf("open store: format %d, level %d: %w", m.version, m.level, ErrNewerFormat)
	}
	if m.version < formatVersion {
		return fmt.Errorf("open store: format %d, where this program knows %d: %w", m.version, formatVersion, ErrOlderFormat)
	}
	return nil
}
