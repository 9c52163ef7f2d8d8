package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/cmd/daybook/internal/checkpoint"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/filelock"
)

// longFile is the length from which a file is stored by a resumable upload.
const longFile = 64 << 20

func newBlobPut() *cobra.Command {
	var b remote.Owned
	cmd := &cobra.Command{
		Use:   "put [FILE ...]",
		Short: "Store files as blobs, and print their addresses",
		Long: `Store each file as a blob, and print its address when the server has it on disk. Without a file, or with -,
the blob is what standard input has. An upload of a file is repeated if the connection breaks.

The upload of a file of 64 MiB or more goes on where it was when the connection breaks or the server restarts. If
the command is interrupted, the same command goes on within a day. For that it notes the upload in
$XDG_STATE_HOME/daybook/uploads (default: ~/.local/state), and removes the note at the end. The note is secret:
whoever has it can append to the upload. If the file has changed meanwhile, the upload begins again.`,
		Example: `  daybook blob put guest.wasm
  tar c photos | daybook blob put`,
	}
	b.Over(cmd, ofBlobs, "", func(cmd *cobra.Command, files []string) error {
		if len(files) == 0 {
			files = []string{"-"}
		}
		for _, file := range files {
			stored, err := putFile(cmd, &b, file)
			switch {
			case err != nil:
			case len(files) > 1: // as sha256sum does
				err = b.ShowValue(stored, "%s  %s\n", stored.Address, file)
			default:
				err = b.ShowValue(stored, "%s\n", stored.Address)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	remote.LinesFlag(cmd, &b.AsJSON, "blob")
	return cmd
}

// putFile stores a file, or standard input.
func putFile(cmd *cobra.Command, b *remote.Owned, file string) (stored files.Blob, err error) {
	blobs := b.Client.Blobs(b.Owner)
	if file == "-" {
		return blobs.Put(cmd.Context(), cmd.InOrStdin())
	}
	f, err := os.Open(file)
	if err != nil {
		return stored, err
	}
	defer f.Close() // the file was only read
	info, err := f.Stat()
	if err != nil {
		return stored, err
	}
	if info.Mode().IsRegular() && info.Size() >= longFile {
		stored, err = putLong(cmd, blobs, checkpoint.Upload{Server: b.URL, Client: b.Owner, Size: info.Size(), Modified: info.ModTime().UnixNano()}, f)
	} else {
		stored, err = blobs.Put(cmd.Context(), f)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return stored, err
}

// putLong stores a file by a resumable upload, which continues where an earlier command was interrupted.
func putLong(cmd *cobra.Command, blobs *files.Blobs, note checkpoint.Upload, f *os.File) (files.Blob, error) {
	errs := cmd.ErrOrStderr()
	notes, err := checkpoint.OpenUpload(&note, f.Name())
	switch {
	case errors.Is(err, filelock.ErrLocked):
		fmt.Fprintf(errs, "daybook: warning: another command is storing %s; this one stores it, too, and cannot be continued\n", f.Name())
	case err != nil:
		fmt.Fprintf(errs, "daybook: warning: the upload of %s cannot be continued if it is interrupted: %v\n", f.Name(), err)
	}
	defer notes.Close()
	o := files.UploadOptions{Resume: note.Upload}
	begun, resumes := note.Upload != "", note.Upload != ""
	if notes != nil {
		o.Begun = func(path string) error {
			begun, resumes = true, false
			if err := notes.Begun(path); err != nil {
				fmt.Fprintf(errs, "daybook: warning: the upload of %s cannot be continued if it is interrupted: %v\n", f.Name(), err)
			}
			return nil
		}
	}
	show := &uploadProgress{line: terminal.NewStatusLine(errs), name: filepath.Base(f.Name())}
	defer show.line.Clear()
	o.Progress = func(sent, size int64) {
		if resumes {
			resumes = false
			fmt.Fprintf(errs, "daybook: %s: going on after %s of %s\n", f.Name(), terminal.SizeText(sent), terminal.SizeText(size))
		}
		show.sent(sent, size)
	}
	stored, err := blobs.Upload(cmd.Context(), f, o)
	switch {
	case err == nil:
		notes.Remove()
	case begun && notes != nil:
		err = fmt.Errorf("%w; the server keeps what has arrived for a day, and the same command goes on after it", err)
	}
	return stored, err
}

// uploadProgress shows on a terminal how much of a file was sent.
type uploadProgress struct {
	line        *terminal.StatusLine
	name        string
	began, last time.Time
	first       int64 // where this command continued
}

// sent is called by the goroutine that sends.
func (p *uploadProgress) sent(sent, size int64) {
	now := time.Now()
	if p.began.IsZero() {
		p.began, p.first = now, sent
	}
	if now.Sub(p.last) < 200*time.Millisecond && sent < size {
		return
	}
	p.last = now
	p.line.Show(progressText(p.name, sent, size, sent-p.first, now.Sub(p.began)))
}

// progressText is one line: how much of a file was sent, how fast, and how long the rest takes at this pace.
func progressText(name string, sent, size, since int64, took time.Duration) string {
	text := fmt.Sprintf("%s: %s of %s (%d%%)", name, terminal.SizeText(sent), terminal.SizeText(size), 100*sent/max(size, 1))
	if since <= 0 || took < time.Second {
		return text
	}
	pace := float64(since) / took.Seconds()
	rest := time.Duration(float64(size-sent) / pace * float64(time.Second))
	return fmt.Sprintf("%s, %s/s, %v left", text, terminal.SizeText(int64(pace)), rest.Round(time.Second))
}
