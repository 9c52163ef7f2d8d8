package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/job"
)

// Contexts are servers with names, in a file of the user.
type Contexts struct {
	Use  string             `toml:"use,omitempty"` // the name of the context that commands use if none is given
	List map[string]Context `toml:"contexts"`
}

// Context is a server. Its address may contain a password, so only the user can read the file.
type Context struct {
	Server  string `toml:"server"`
	KeyFile string `toml:"key-file,omitempty"`
	// EncryptKeyFile has the keys that encrypt payloads, outputs and errors.
	EncryptKeyFile string `toml:"encrypt-key-file,omitempty"`
	ServerTLS
}

// contextsFile returns the path of the file with the contexts, which need not exist.
func contextsFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the directory of the contexts: %w", err)
	}
	return filepath.Join(dir, "daybook", "contexts.toml"), nil
}

// ReadContexts returns the stored contexts. A user without a home directory has none.
func ReadContexts() (all Contexts, err error) {
	path, err := contextsFile()
	if err != nil {
		return Contexts{}, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Contexts{}, nil
	}
	if err != nil {
		return Contexts{}, fmt.Errorf("read contexts: %w", err)
	}
	if err := toml.Unmarshal(text, &all); err != nil {
		return Contexts{}, terminal.Usagef("contexts %s%w", path, atLine(err))
	}
	return all, nil
}

// lockedFor is how long a command waits for another process that changes the contexts. A change takes milliseconds.
const lockedFor = 10 * time.Second

// lockContexts keeps other processes from changing the contexts, until unlock is called.
func lockContexts() (unlock func(), err error) {
	path, err := contextsFile()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := filelock.Create(path + ".lock")
	if err != nil {
		return nil, err
	}
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if err = filelock.Lock(f); !errors.Is(err, filelock.ErrLocked) || time.Since(begun) > lockedFor {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the contexts: %w", err), f.Close())
	}
	return func() { _ = filelock.Close(f) }, nil // the file is empty, and its lock ends with the process at the latest
}

// write replaces the file with the contexts.
func (c *Contexts) write() error {
	path, err := contextsFile()
	if err != nil {
		return err
	}
	text, err := toml.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".contexts-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// errNoContext means that no context has the given name.
var errNoContext = errors.New("there is no context")

// ChangeContexts reads the contexts, changes them, and writes them. Other processes wait until it is done.
func ChangeContexts(change func(*Contexts) error) (all Contexts, err error) {
	unlock, err := lockContexts()
	if err != nil {
		return all, err
	}
	defer unlock()
	if all, err = ReadContexts(); err != nil {
		return all, err
	}
	if err := change(&all); err != nil {
		return all, err
	}
	return all, all.write()
}

// Address returns the address of a server by its name.
func (c *Contexts) Address(name string) (string, error) {
	found, ok := c.List[name]
	if !ok {
		return "", terminal.Usagef("%w %q; `daybook context list` shows all, and `daybook context add %s URL` adds it", errNoContext, name, name)
	}
	return found.Server, nil
}

// InUse describes, without passwords, the server that commands use if none is given.
func (c *Contexts) InUse() string {
	if c.Use == "" {
		return DefaultServer + ", since no context is in use"
	}
	return fmt.Sprintf("%s, the context %s", Redacted(c.List[c.Use].Server), c.Use)
}

// Names returns the names of the contexts in order.
func (c *Contexts) Names() []string { return slices.Sorted(maps.Keys(c.List)) }

func CheckContextName(name string) error {
	if err := job.CheckName("NAME", name); err != nil {
		return terminal.Usage(err)
	}
	return nil
}
