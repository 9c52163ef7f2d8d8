package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// Server is a server that bench starts: another process of this program.
type Server struct {
	Url, Dir string
	cmd      *exec.Cmd
	ended    chan struct{} // closed when the process has ended
	err      error         // how it has ended; read it after ended is closed
}

const (
	// benchDisk is the free space that bench needs: the journal and the store of about 15 million jobs of 100 bytes, and
	// the server's reserve.
	benchDisk = 5 << 30
	// benchServerEnds is how long the server may take to stop before it is killed.
	benchServerEnds = 20 * time.Second
)

// OwnProgram returns a command that runs this program without settings from the environment. A test replaces it.
var OwnProgram = func(args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	cmd := exec.Command(path, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, config.VariablePrefix) })
	return cmd, err
}

// StartServer starts a server on the disk of a data directory, and returns when it is ready.
func StartServer(ctx context.Context, data string, errs io.Writer) (s *Server, err error) {
	dir, err := tempOn(data)
	if err != nil {
		return nil, err
	}
	s = &Server{Dir: dir, ended: make(chan struct{})}
	listening := make(chan string, 1)
	if err := s.start(listening, errs); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	select {
	case address := <-listening:
		s.Url = address
	case <-s.ended:
		return nil, errors.Join(fmt.Errorf("the server for the measurement ended: %w", s.err), os.RemoveAll(dir))
	case <-ctx.Done():
		return nil, errors.Join(ErrInterrupted, s.End())
	}
	// An empty journal is ready within milliseconds.
	for c := client.New(s.Url, client.Options{RetryFor: -1}); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if c.Ready(ctx) == nil {
			return s, nil
		}
		select {
		case <-s.ended:
			return nil, errors.Join(fmt.Errorf("the server for the measurement ended: %w", s.err), os.RemoveAll(dir))
		default:
		}
	}
	return nil, errors.Join(ErrInterrupted, s.End())
}

// start starts the process. It sends the server's URL when the server listens.
func (s *Server) start(listening chan<- string, errs io.Writer) error {
	cmd, err := OwnProgram("serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(s.Dir, "data"), "--init", "--log-level", "warn", "--log-format", "console")
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd.Stderr = errs
	apart(cmd) // Ctrl-C must reach only this process, which then ends the server
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.cmd = cmd
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Linux ends the process when the thread that started it ends
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start a server: %w", err)
			return
		}
		started <- nil
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if address, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				listening <- address
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // it ends with the process
		if s.err = cmd.Wait(); s.err == nil {
			s.err = errors.New("it stopped")
		}
		close(s.ended)
	}()
	return <-started
}

// End stops the server and deletes its directory.
func (s *Server) End() error {
	select {
	case <-s.ended:
		return errors.Join(fmt.Errorf("the server for the measurement ended before it was stopped: %w", s.err), os.RemoveAll(s.Dir))
	default:
	}
	err := s.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	impatient := time.AfterFunc(benchServerEnds, func() { _ = s.cmd.Process.Kill() }) // the process may have ended
	defer impatient.Stop()
	<-s.ended
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// tempOn makes a temporary directory on the disk of a data directory, which need not exist: beside it if that is the
// same disk, and otherwise in it.
func tempOn(data string) (dir string, err error) {
	path, err := filepath.Abs(data)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			break
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
			return "", fmt.Errorf("find the disk of %s: %w", data, err)
		}
		path = filepath.Dir(path) // data does not exist yet; a server would create it here
	}
	if full, err := filepath.Abs(data); err == nil && path == full && sameDisk(path, filepath.Dir(path)) && isWritable(filepath.Dir(path)) {
		path = filepath.Dir(path)
	}
	free, err := freeSpace(path)
	if err != nil {
		return "", &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if free < benchDisk {
		return "", fmt.Errorf("the disk of %s has %s free, and the measurement needs %s: %w; name another directory with --data", path, terminal.SizeText(free), terminal.SizeText(int64(benchDisk)), syscall.ENOSPC)
	}
	return os.MkdirTemp(path, "daybook-bench-*")
}

// ErrInterrupted is returned when a signal ended the measurement.
var ErrInterrupted = fmt.Errorf("%w before all was measured", terminal.ErrInterrupted)
