package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newBlob() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "blob",
		Short: "Store and read blobs: programs, inputs and outputs of any length",
		Long: `Store and read blobs. A blob is a sequence of bytes, and its address is their SHA-256. Jobs name blobs in
binary_addr, input_addr and output_addr, or anywhere in their payloads. A blob that no job, output, handler or
fileset names is removed when it is a day old.

An address is sha256:<64 hex digits>. Commands also accept 64 hex digits, sha256-<base64>, and the 40 hex
digits of a SHA-1.`,
		Example: `  daybook blob put guest.wasm
  daybook blob ls`,
	}
	return terminal.Group(cmd, newBlobPut(), newBlobGet(), newBlobList(), newBlobCollect())
}

// ofBlobs is the help of --client.
const ofBlobs = "the client whose blobs are meant (default: those that all clients share)"

func newBlobGet() *cobra.Command {
	var b remote.Owned
	var output string
	cmd := &cobra.Command{
		Use:   "get ADDRESS",
		Short: "Write a blob to standard output, or to a file",
		Long: `Write a blob to standard output, or to the file of --output, which appears only when the whole blob has
arrived. The bytes are compared with the address. If they are damaged, the command fails.`,
		Example: `  daybook blob get sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  daybook blob get --output guest.wasm 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: cobra.ExactArgs(1),
	}
	b.Over(cmd, "read the blobs of this client and the shared ones (default: only the shared ones)", "", func(cmd *cobra.Command, args []string) (err error) {
		blob, err := b.Client.Blobs(b.Owner).Open(cmd.Context(), args[0])
		if errors.Is(err, client.ErrBadRequest) {
			return terminal.Usage(err)
		}
		if err != nil {
			return err
		}
		defer blob.Close() // the blob was only read
		if output == "" {
			_, err = io.Copy(b.Out, blob)
			return err
		}
		return writeWhole(output, blob)
	})
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write (default: standard output)")
	return cmd
}

// writeWhole writes a file. The file appears, or replaces an existing one, only if all of r was read.
func writeWhole(path string, r io.Reader) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func newBlobList() *cobra.Command {
	var b remote.Owned
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the blobs",
		Long:    `List the blobs in the order of their addresses, with their bytes and when they were stored last.`,
		Example: `  daybook blob ls --client acme`,
		Args:    cobra.NoArgs,
	}
	b.Over(cmd, ofBlobs, "", func(cmd *cobra.Command, _ []string) error {
		for found, err := range b.Client.Blobs(b.Owner).All(cmd.Context()) {
			if err == nil { // there may be millions, so the columns are not aligned
				err = b.ShowValue(found, "%s  %12d  %s\n", found.Address, found.Size, terminal.Moment(found.ChangedAt))
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

func newBlobCollect() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove the blobs that nothing names",
		Long: `Remove the blobs that were stored more than a day ago and that no job, output, handler or fileset names. The
server does this regularly by itself (serve --blobs-collect). It reads all jobs, which may take minutes.`,
		Example: `  daybook blob gc --server http://queue.example:1717`,
		Args:    cobra.NoArgs,
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		done, err := r.Client.CollectBlobs(cmd.Context())
		if err != nil {
			return err
		}
		return r.ShowValue(done, "%d blobs with %s removed; blobs that are younger than a day stay\n", done.Blobs, terminal.SizeText(done.Bytes))
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}
