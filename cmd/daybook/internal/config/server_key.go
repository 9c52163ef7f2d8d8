package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// keyVariable has the text of a key itself, for programs that get their secrets in variables.
const keyVariable = "DAYBOOK_KEY"

// maxKeyFile is more than a file with a key or a token has.
const maxKeyFile = 16 << 10

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
	if err := checkKey(text); err != nil {
		return "", terminal.Usagef("%s: %w", from, err)
	}
	return text, nil
}

// token is the form of a JSON Web Token, as issuers of OpenID Connect make it.
var token = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// checkKey returns an error unless a text can be a key or a token. The server finds out whether it is good.
func checkKey(text string) error {
	if token.MatchString(text) {
		return nil
	}
	_, _, err := job.ParseKeyText(text)
	return err
}

// freshKey returns the key of a file, which it reads again when the file has changed: Kubernetes replaces the tokens of its files
// before they end. first is the text that was read already.
func freshKey(path, first string) func(context.Context) (string, error) {
	var mu sync.Mutex
	var seen os.FileInfo
	text := first
	return func(context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return text, nil // it is being replaced, or the key is needed no longer than the file was
		case seen != nil && os.SameFile(info, seen) && info.ModTime().Equal(seen.ModTime()) && info.Size() == seen.Size():
			return text, nil
		}
		if next, err := ReadKeyFile(path); err == nil && checkKey(strings.TrimSpace(next)) == nil {
			text, seen = strings.TrimSpace(next), info
		}
		return text, nil
	}
}

// ReadKeyFile returns the contents of a file with a key.
func ReadKeyFile(path string) (string, error) {
	if _, _, err := job.ParseKeyText(path); err == nil {
		return "", errors.New("this is the text of a key, and not the path of a file; put it into a file, or into DAYBOOK_KEY")
	}
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
