package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Mode says what New does if the machine lacks a feature.
type Mode string

const (
	Auto    Mode = "auto"    // use every feature that the machine has; "" is the same
	Require Mode = "require" // return an error if a feature is missing
	Off     Mode = "off"     // processes only get a new group
)

// Sandbox starts processes. Its methods may be called from many goroutines.
type Sandbox struct {
	missing []string
	tree    tree // zero with mode Off, and on systems other than Linux
}

// Missing returns the features that this machine lacks, as sentences. It is empty if none is missing.
func (s *Sandbox) Missing() []string { return s.missing }

// Shares reports whether every process may write to a directory, because it is a directory for temporary files or is in
// one. It returns false if access to files is not restricted at all: see Missing.
func (s *Sandbox) Shares(dir string) bool { return s.tree.shares(dir) }

// Reads reports whether a command's process may read below a directory. It ignores Bare.
func (s *Sandbox) Reads(c *Command, dir string) bool { return s.tree.reads(c, dir) }

// ErrMissing is returned by New with mode Require if a feature is missing.
var ErrMissing = errors.New("this machine cannot do all that a sandbox needs")

// Command is a process to start.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH of Env. A relative path
	// with a slash is relative to Dir.
	Argv []string
	// Env is the complete environment, as NAME=value.
	Env []string
	// Dir is the working directory, or "" for the runner's.
	Dir string

	// Stdin, Stdout and Stderr may be nil, which means /dev/null. An *os.File is passed to the process. For other
	// values, bytes are copied. If Stdout or Stderr returns an error, the kernel ends the process (SIGPIPE) when it
	// writes more.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Files become the process's descriptors from 3 on. The caller closes its own.
	Files []*os.File

	Limits Limits
	Access Access
	// Bare removes the default of Access, except the program, /proc, the directories of libraries, the working
	// directory if Dir is set, and devices such as /dev/null.
	Bare bool
}

// Limits are limits of resources. Zero means no limit, or the runner's.
type Limits struct {
	// MemoryBytes limits the memory of all processes of the tree together. If they need more, the kernel kills them. It
	// requires a cgroup: see Missing.
	MemoryBytes int64
	// Processes limits the processes and threads of the tree. It requires a user namespace or a cgroup.
	Processes int
	OpenFiles int   // of each process
	FileBytes int64 // of each written file; a process that writes more gets SIGXFSZ
}

// Access extends the default access of a process. By default it may
//
//   - read and execute the program, and files below /usr, /bin, /sbin, /lib*, /opt, /nix/store, /gnu/store, /proc, /sys
//     and the working directory if Dir is set
//   - read and write files below /tmp, /var/tmp, TMPDIR of Env and /dev/shm, and devices such as /dev/null
//   - use no network, not even the machine's own addresses, and no Unix sockets except those that socketpair creates
//
// With mode Off a process may do whatever its user may.
type Access struct {
	ReadOnly  []string `toml:"read_only"` // absolute paths of files and directories to read and execute
	ReadWrite []string `toml:"read_write"`
	Network   bool     `toml:"network"` // the network and Unix sockets
}

// check refuses commands that no system could start.
func (c *Command) check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return errors.New("a command needs a program")
	}
	for _, texts := range [][]string{c.Argv, c.Env, {c.Dir}, c.Access.ReadOnly, c.Access.ReadWrite} {
		for _, s := range texts {
			if strings.ContainsRune(s, 0) {
				return fmt.Errorf("%q has a NUL byte", s)
			}
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"MemoryBytes", c.Limits.MemoryBytes}, {"Processes", int64(c.Limits.Processes)}, {"OpenFiles", int64(c.Limits.OpenFiles)}, {"FileBytes", c.Limits.FileBytes}} {
		if n.value < 0 {
			return fmt.Errorf("the limit %s is negative: %d", n.name, n.value)
		}
	}
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil {
			return fmt.Errorf("working directory: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("working directory: %s is not a directory", c.Dir)
		}
	}
	return nil
}

// Start starts a process. It returns when the program runs, or an error if the program cannot be started. The caller
// must call Wait.
func (s *Sandbox) Start(c Command) (*Process, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p, err := s.start(&c)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	return p, nil
}
