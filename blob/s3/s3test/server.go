package s3test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// The credentials of the server.
const (
	AccessKey = "test-access-key"
	SecretKey = "test-secret-key-that-nobody-may-see"
)

// needed is the variable that makes a missing server an error. It is set where `scripts/tools` has succeeded.
const needed = "TESTS_NEED_S3"

// Server is a running S3 server.
type Server struct {
	Addr string // host:port
	Dir  string // Dir/BUCKET/KEY is the file of an object
	path string
	meta string
	t    *testing.T

	mu      sync.Mutex // guards the fields below
	process *exec.Cmd
	ended   chan struct{}
	output  *bytes.Buffer
}

// Start starts a server with empty buckets on a free port, until the test ends. It skips the test where the server is
// not installed. It sets the environment variables with the server's credentials.
func Start(t *testing.T, buckets ...string) *Server {
	t.Helper()
	path := filepath.Join(root(t), "bin", "versitygw")
	if _, err := os.Stat(path); err != nil {
		if os.Getenv(needed) != "" {
			t.Fatalf("%s is set, and there is no S3 server: %v", needed, err)
		}
		t.Skipf("no S3 server: %v; `scripts/tools` builds it", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", SecretKey)
	s := &Server{Dir: t.TempDir(), meta: t.TempDir(), path: path, t: t}
	for _, b := range buckets {
		if err := os.Mkdir(filepath.Join(s.Dir, b), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Addr = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	t.Cleanup(s.Kill)
	return s
}

// Restart starts the server again on its old port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output = &bytes.Buffer{}
	s.process = exec.Command(s.path, "--port", s.Addr, "--access", AccessKey, "--secret", SecretKey, "--keep-alive", "--quiet", "posix", "--sidecar", s.meta, s.Dir)
	s.process.Stdout, s.process.Stderr = s.output, s.output
	testkit.EndWithParent(s.process)
	s.ended = make(chan struct{})
	process, ended := s.process, s.ended
	started := make(chan error)
	go func() { // Pdeathsig is sent when the thread that has started the process ends
		runtime.LockOSThread()
		started <- process.Start()
		_ = process.Wait() // it is killed
		close(ended)
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", s.Addr)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-ended:
			s.t.Fatalf("the S3 server has ended: %s", s.output)
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the S3 server does not listen: %v", err)
		}
	}
}

// Kill ends the server at once.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill() // it may have ended
	<-s.ended
	s.process = nil
}

// Address returns the address of a bucket of the server.
func (s *Server) Address(bucketAndPrefix string) string { return Address(bucketAndPrefix, s.Addr) }

// Address returns the address of a bucket at an endpoint.
func Address(bucketAndPrefix, addr string) string {
	return fmt.Sprintf("s3://%s?endpoint=http://%s&lookup=path", bucketAndPrefix, addr)
}

// root returns the root of the tree, which is above the folder of the tested package.
func root(t *testing.T) string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			err = errors.New("no folder above this one has a go.work")
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("find the root of the tree: %v", err)
	return ""
}
