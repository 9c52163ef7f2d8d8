package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Mode says what New does if the machine lacks something.
type Mode string

const (
	Auto    Mode = "auto"    // does the best that the machine can do; "" is the same
	Require Mode = "require" // New returns an error if anything is missing
	Off     Mode = "off"     // processes get a group of their own, and nothing else
)

// Sandbox starts processes. Its methods may be called from many goroutines.
type Sandbox struct {
	missing []string
	tree    tree // zero with mode Off, and on systems other than Linux
}

// Missing returns what this machine cannot do, as sentences. It is empty if the machine can do everything.
func (s *Sandbox) Missing() []string { return s.missing }

// Shares reports whether every process may write below a directory because it is one for temporary files, or in one. It
// reports false if files are not restricted at all: see Missing.
func (s *Sandbox) Shares(dir string) bool { return s.tree.shares(dir) }

// Reads reports whether the process of a command may read below a directory. Bare is not considered.
func (s *Sandbox) Reads(c *Command, dir string) bool { return s.tree.reads(c, dir) }

// ErrMissing is returned by New with mode Require.
var ErrMissing = errors.New("this machine cannot do all that a sandbox needs")

// Command is a process to start.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH of Env, and a relative
	// one with a slash in Dir.
	Argv []string
	// Env is the whole environment, as in NAME=value.
	Env []string
	// Dir is the working directory, or "" for that of the runner.
	Dir string

	// Stdin, Stdout and Stderr may be nil, which means /dev/null. An *os.File is passed on; otherwise the bytes are
	// copied. The process is ended by the kernel (SIGPIPE) when Stdout or Stderr returns an error and it writes more.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Files are the descriptors of the process from 3 on. The caller closes its own.
	Files []*os.File

	Limits Limits
	Access Access
	// Bare takes the default of Access away, except for the program, /proc, the directories of libraries, the working
	// directory if Dir is set, and devices like /dev/null.
	Bare bool
}

// Limits are limits of resources. Zero means no limit, or that of the runner.
type Limits struct {
	// MemoryBytes limits the memory of all processes of the tree together. If they need more, the kernel ends them. It
	// requires a cgroup: see Missing.
	MemoryBytes int64
	// Processes limits how many processes and threads the tree has. It requires a user namespace or a cgroup.
	Processes int
	OpenFiles int   // of each process
	FileBytes int64 // of each file that is written. A process that writes more gets SIGXFSZ.
}

// Access is what the process may reach beyond the default. The default:
//
//   - read and execute the program, and below /usr, /bin, /sbin, /lib*, /opt, /nix/store, /gnu/store, /proc, /sys
//     and the working directory if Dir is set
//   - read and write below /tmp, /var/tmp, TMPDIR of Env and /dev/shm, and devices such as /dev/null
//   - no network, not even that of the machine itself, and no Unix sockets but those of socketpair
//
// With mode Off a process may reach what its user may.
type Access struct {
	ReadOnly  []string `toml:"read_only"` // absolute paths of files and directories, to read and execute
	ReadWrite []string `toml:"read_write"`
	Network   bool     `toml:"network"` // the network and Unix sockets
}

// check refuses what no system could start.
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

// Start starts a process. It returns when the program runs, or with an error if it cannot be started. The caller calls
// Wait.
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
