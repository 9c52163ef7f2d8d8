package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// keyVariable has the text of a key itself, for programs that get their secrets in variables.
const keyVariable = "DAYBOOK_KEY"

// maxKeyFile is more than a file with a key or a token has.
const maxKeyFile = 16 << 10

// keyPath returns the path of the file with the key, or "" if the variable has the key, or there is none. The order is that of all
// settings: the flag, the environment, a file with settings, the context. Within the environment, DAYBOOK_KEY_FILE comes first.
func (a *ServerAddress) keyPath() string {
	if a.keyInVariable() {
		return ""
	}
	return a.keyFile
}

// keyInVariable reports whether the key is the text of the variable. The context is resolved.
func (a *ServerAddress) keyInVariable() bool {
	if strings.TrimSpace(os.Getenv(keyVariable)) == "" {
		return false
	}
	f := a.keyFlag
	return f == nil || !f.Changed || !OnCommandLine(f) && f.Annotations[originKey][0] != Variable("", f.Name)
}

// Key returns the text of the key with which commands use the server, or "" if there is none: from the file of keyPath, or from the
// variable. An error never has the text. If other users can read the file, the first call says so on standard error.
func (a *ServerAddress) Key() (string, error) {
	if _, err := a.resolve(); err != nil {
		return "", err
	}
	text, from := os.Getenv(keyVariable), "the variable "+keyVariable
	path := a.keyPath()
	if path != "" {
		var err error
		if text, err = ReadKeyFile(path); err != nil {
			return "", terminal.Usagef("--key-file: %w", err)
		}
		from = path
		a.warnReadable(path)
	}
	if text = strings.TrimSpace(text); text == "" && path == "" {
		return "", nil
	}
	if err := checkKey(text); err != nil {
		return "", terminal.Usagef("%s: %w", from, err)
	}
	return text, nil
}

// warnReadable says once that other users can read the file with the key. A group may be meant to read it, as that of a service in
// Kubernetes.
func (a *ServerAddress) warnReadable(path string) {
	info, err := os.Stat(path)
	if err != nil || a.warned || a.warnings == nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o007 == 0 { // Windows has no such modes
		return
	}
	a.warned = true
	fmt.Fprintf(a.warnings(), "daybook: all users of this machine can read the key in %s (mode %04o); run: chmod o= %s\n", path, info.Mode().Perm(), path)
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
