package config

import (
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/encryption"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// EncryptionFlag adds the flag --encrypt-key-file to a command that has ServerFlag, and that sends or shows payloads, outputs
// or errors.
func EncryptionFlag(cmd *cobra.Command, to *ServerAddress) {
	cmd.Flags().StringVar(&to.encryptKeyFile, "encrypt-key-file", "", "file with the keys that encrypt payloads, outputs and errors, so that the server cannot read them")
	to.encrypts = true
}

// Codec returns the codec of the file of --encrypt-key-file, or that of the file in the context. It is nil without such a
// file, and for a command without the flag. It reads the file once.
func (a *ServerAddress) Codec() (client.Codec, error) {
	if _, err := a.resolve(); err != nil || !a.encrypts || a.encryptKeyFile == "" {
		return nil, err
	}
	if a.codec == nil {
		keys, err := encryption.ReadFile(a.encryptKeyFile)
		if err != nil {
			return nil, terminal.Usagef("--encrypt-key-file: %w", err)
		}
		a.codec = keys
	}
	return a.codec, nil
}
