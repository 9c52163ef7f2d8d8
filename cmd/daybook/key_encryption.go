package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client/encryption"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newKeyEncryption() *cobra.Command {
	var r remote.Command
	var rotate bool
	cmd := &cobra.Command{
		Use:   "encryption FILE",
		Short: "Make a key for --encrypt-key-file",
		Long: `Make a key that encrypts payloads, outputs and errors, and write it to a file that only you can read. Commands and
"daybook work" use it by --encrypt-key-file. The server never gets it: without the file, nobody can read what was
encrypted. The file must not exist.

With --rotate, the file must exist. The new key becomes its first one, which encrypts; the others still decrypt.
Give the new file to the programs that read results, then to the workers, and then to the producers.`,
		Example: `  daybook key encryption jobs.key
  daybook key encryption --rotate jobs.key`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := []byte(encryption.NewKey() + "\n")
			made, err := encryption.Parse(text)
			if err != nil {
				return err
			}
			write := writeNewKeys
			if rotate {
				write = rotateKeys
			}
			if err := write(args[0], text); err != nil {
				return err
			}
			r.Out = cmd.OutOrStdout()
			id := made.IDs()[0]
			return r.ShowValue(map[string]any{"file": args[0], "id": id}, "%s encrypts with the new key %s\n", args[0], id)
		},
	}
	remote.JSONFlag(cmd, &r.AsJSON)
	cmd.Flags().BoolVar(&rotate, "rotate", false, "add the key to a file that exists, as the one that encrypts")
	return cmd
}

// writeNewKeys writes keys to a file that must not exist.
func writeNewKeys(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w; --rotate adds a key to it", err)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// rotateKeys puts a key before those of a file. Another process reads the file before or after that.
func rotateKeys(path string, first []byte) (err error) {
	if _, err := encryption.ReadFile(path); err != nil {
		return terminal.Usage(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all := append(first, before...)
	if _, err := encryption.Parse(all); err != nil {
		return terminal.Usagef("%s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".daybook-keys-*") // only its owner can read it
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error counts
		}
	}()
	_, err = f.Write(all)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
