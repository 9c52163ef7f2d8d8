package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/daybookq/daybook/client"
)

// lines are the checksums of the lines that were posted, by number. The payload of a job is a line: its number, which makes it unique,
// the path of a file of this machine, and a line of that file.
type lines [][]byte

// maxLine excludes lines of minified and binary files.
const maxLine = 4 << 10

// write writes n numbered lines to w.
func (l *lines) write(ctx context.Context, w io.Writer, n int) error {
	roots := []string{"/usr/include", "/usr/share", "/usr/lib"} // until there are enough lines
	if goroot, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		roots = append([]string{filepath.Join(string(bytes.TrimSpace(goroot)), "src")}, roots...)
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // skip files that cannot be read
			}
			text, err := os.ReadFile(path)
			if err != nil || bytes.IndexByte(text, 0) >= 0 {
				return nil
			}
			for content := range bytes.Lines(text) {
				if content = bytes.TrimRight(content, "\n"); len(content) == 0 || len(content) > maxLine {
					continue
				}
				line := fmt.Appendf(nil, "%d %s: %s", len(*l), path, content)
				*l = append(*l, checksum(line))
				if _, err := w.Write(append(line, '\n')); err != nil {
					return err
				}
				if len(*l) == n {
					return fs.SkipAll
				}
			}
			return ctx.Err()
		})
		if err != nil || len(*l) == n {
			return err
		}
	}
	return fmt.Errorf("this machine has only %d lines in %v, fewer than %d", len(*l), roots, n)
}

// checksum is the result that a Worker computes from a line.
func checksum(line []byte) []byte {
	return fmt.Appendf(nil, "%x", sha256.Sum256(line))
}

// account counts the jobs of lines.
type account struct {
	completed, rerun int
	problems         []error           // lost, doubled and wrong jobs
	digest           [sha256.Size]byte // of the documents
}

func (a account) String() string {
	return fmt.Sprintf("%d completed, %d of them in more than one run\n%d lost, doubled or wrong", a.completed, a.rerun, len(a.problems))
}

// check reads all jobs, and compares them with the lines.
func (l lines) check(ctx context.Context, c *client.Client) (a account, err error) {
	seen, sum := make([]bool, len(l)), sha256.New()
	for j, err := range c.Jobs(ctx, client.JobsQuery{Type: queueType, PageSize: 1000}) {
		if err != nil {
			return a, fmt.Errorf("read the jobs back: %w", err)
		}
		document, err := json.Marshal(j) // without the payload and the output
		if err != nil {
			return a, err
		}
		fmt.Fprintf(sum, "%s %q %q\n", document, j.Payload, j.Output)
		digits, _, _ := bytes.Cut(j.Payload, []byte(" "))
		n, err := strconv.Atoi(string(digits))
		switch {
		case err != nil || n >= len(l) || !bytes.Equal(checksum(j.Payload), l[n]):
			a.problems = append(a.problems, fmt.Errorf("job %s: its payload is %q", j.ID, j.Payload))
			continue
		case seen[n]:
			a.problems = append(a.problems, fmt.Errorf("line %d has a second job, %s", n, j.ID))
		case j.Status != "completed" || !bytes.Equal(j.Output, l[n]):
			a.problems = append(a.problems, fmt.Errorf("line %d: job %s is %s with the output %q", n, j.ID, j.Status, j.Output))
		default:
			a.completed++
		}
		seen[n] = true
		if j.RunAttempts > 1 {
			a.rerun++
		}
	}
	for n, found := range seen {
		if !found {
			a.problems = append(a.problems, fmt.Errorf("line %d is lost", n))
		}
	}
	sum.Sum(a.digest[:0])
	return a, errors.Join(a.problems[:min(len(a.problems), 10)]...)
}
