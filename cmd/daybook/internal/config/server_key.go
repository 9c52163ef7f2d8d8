package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// keyVariable has the text of a key itself, for programs that get their secrets in variables.
const keyVariable = "DAYBOOK_KEY"

// maxKeyFile is more than a file with a key has.
const maxKeyFile = 4 << 10

// Key returns the text of the key with which commands use the server, or "" if there is none: from the file of --key-file, from
// the file in the context, or from the variable. An error never has the text.
func (a *ServerAddress) Key() (string, error) {
	if _, err := a.resolve(); err != nil {
		return "", err
	}
	text, from := os.Getenv(keyVariable), "the variable "+keyVariable
	if a.keyFile != "" {
		var err error
		if text, err = ReadKeyFile(a.keyFile); err != nil {
			return "", terminal.Usagef("--key-file: %w", err)
		}
		from = a.keyFile
	}
	if text = strings.TrimSpace(text); text == "" && a.keyFile == "" {
		return "", nil
	}
	if _, _, err := job.ParseKeyText(text); err != nil {
		return "", terminal.Usagef("%s: %w", from, err)
	}
	return text, nil
}

// ReadKeyFile returns the contents of a file with a key.
func ReadKeyFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxKeyFile) {
		err = fmt.Errorf("%s is not a file of at most %d bytes", path, maxKeyFile)
	}
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	return string(text), err
}
