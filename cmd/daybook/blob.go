package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// blobCommand has the flags of the commands for blobs.
type blobCommand struct {
	server config.ServerAddress
	url    string // of the server, when it is known
	client string
	asJSON bool
}

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

// flags adds the flags that the commands for blobs share.
func (b *blobCommand) flags(cmd *cobra.Command, json string) {
	config.ServerFlag(cmd, &b.server)
	cmd.Flags().StringVar(&b.client, "client", "", "the client whose blobs are meant (default: those that all clients share)")
	cmd.Flags().BoolVar(&b.asJSON, "json", false, json)
}

// dial checks the flags, and returns a client of the server.
func (b *blobCommand) dial(cmd *cobra.Command) (*client.Client, error) {
	if b.client != "" {
		if err := job.CheckName("--client", b.client); err != nil {
			return nil, terminal.Usage(err)
		}
	}
	var err error
	if b.url, err = remote.Reach(cmd, &b.server); err != nil {
		return nil, err
	}
	return remote.NewClient(cmd, b.url), nil
}

func newBlobGet() *cobra.Command {
	var b blobCommand
	var output string
	cmd := &cobra.Command{
		Use:   "get ADDRESS",
		Short: "Write a blob to standard output, or to a file",
		Long: `Write a blob to standard output, or to the file of --output, which appears only when the whole blob has
arrived. The bytes are compared with the address. If they are damaged, the command fails.`,
		Example: `  daybook blob get sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  daybook blob get --output guest.wasm 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c, err := b.dial(cmd)
			if err != nil {
				return err
			}
			blob, err := c.Blobs(b.client).Open(cmd.Context(), args[0])
			if errors.Is(err, client.ErrBadRequest) {
				return terminal.Usage(err)
			}
			if err != nil {
				return err
			}
			defer blob.Close() // the blob was only read
			if output == "" {
				_, err = io.Copy(cmd.OutOrStdout(), blob)
				return err
			}
			return writeWhole(output, blob)
		},
	}
	config.ServerFlag(cmd, &b.server)
	cmd.Flags().StringVar(&b.client, "client", "", "read the blobs of this client and the shared ones (default: only the shared ones)")
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
	var b blobCommand
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the blobs",
		Long:    `List the blobs in the order of their addresses, with their bytes and when they were stored last.`,
		Example: `  daybook blob ls --client acme`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := b.dial(cmd)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for found, err := range c.Blobs(b.client).All(cmd.Context()) {
				switch {
				case err != nil:
				case b.asJSON:
					err = json.NewEncoder(out).Encode(found)
				default: // there may be millions, so the columns are not aligned
					_, err = fmt.Fprintf(out, "%s  %12d  %s\n", found.Address, found.Size, terminal.Moment(found.ChangedAt))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	b.flags(cmd, "print JSON, one blob per line")
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
