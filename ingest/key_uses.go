package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/daybookq/daybook/job"
)

// The hour of a key's last use is no command: each request would be one. It is in memory, and in a file of the data directory, which
// is written once an hour if there was a change, and at a clean stop. A kill loses the uses of up to an hour. Neither other nodes nor
// backups have it.

// saveUsesEvery is the time between two looks at whether keys were used.
const saveUsesEvery = time.Hour

// keyUsesFile returns the file with a line for each key: its name, a space, and the hour in unix ms.
func keyUsesFile(data string) string { return filepath.Join(data, "key-uses") }

// readKeyUses takes over what the file says about keys that exist. A file that cannot be read is no reason to refuse a start.
func (e *Engine) readKeyUses() {
	f, err := os.Open(keyUsesFile(e.o.Dir))
	if err == nil {
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			name, text, _ := strings.Cut(lines.Text(), " ")
			hour, err := strconv.ParseInt(text, 10, 64)
			if key := e.store.Key(name); key != nil && err == nil && hour <= job.MaxTimeMs {
				key.Used(hour)
			}
		}
		err = lines.Err()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.logger.Warn("cannot read when keys were used last", "error", err)
	}
}

// keepKeyUses writes the file while the engine runs, and when ctx is done.
func (e *Engine) keepKeyUses(ctx context.Context) {
	ticks := time.NewTicker(saveUsesEvery)
	defer ticks.Stop()
	saved := e.store.KeyUses()
	for {
		ended := false
		select {
		case <-ctx.Done():
			ended = true
		case <-ticks.C:
		}
		if uses := e.store.KeyUses(); !maps.Equal(uses, saved) {
			if err := writeKeyUses(keyUsesFile(e.o.Dir), uses); err != nil {
				e.logger.Warn("cannot write when keys were used last", "error", err)
			} else {
				saved = uses
			}
		}
		if ended {
			return
		}
	}
}

func writeKeyUses(path string, uses map[string]int64) error {
	var text []byte
	for name, hour := range uses {
		text = fmt.Appendf(text, "%s %d\n", name, hour)
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, text, 0o640); err != nil {
		return err
	}
	return os.Rename(fresh, path) // a reader sees the old file or the whole new one
}
