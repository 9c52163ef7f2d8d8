//go:build unix

package check

import (
	"flag"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

var moving = flag.Bool("moving", false, "run the pages about moving beside the systems that they are about")

// movingNote is the note of the blocks that need another system.
const movingNote = "docs/check TestMoving"

// movingPages are the pages with these blocks, and the programs that the blocks need.
var movingPages = map[string][]string{
	"from-redis-streams.md": {"redis-server", "redis-cli"},
	"from-bullmq.md":        {"redis-server", "node", "npm"},
	"from-celery.md":        {"redis-server", "redis-cli", "celery"},
	"from-sidekiq.md":       {"redis-server", "redis-cli", "ruby", "sidekiq"},
	"from-river.md":         {"psql"},
	"from-sqs.md":           {"moto_server", "python"}, // moto is a mock of Amazon's services
}

// The addresses of Redis and PostgreSQL on the pages.
const (
	redisStandsFor    = "127.0.0.1:6379"
	postgresStandsFor = "127.0.0.1:5432"
)

// TestMoving runs the pages about moving, including the blocks that need the other system, each with a new Redis,
// PostgreSQL or mock of SQS.
func TestMoving(t *testing.T) {
	if !*moving {
		t.Skip("skipped: it needs Redis, PostgreSQL, Celery, Sidekiq, BullMQ and moto; make check PART=moving installs and runs them")
	}
	root, pages := pages(t)
	found := 0
	for _, p := range pages {
		need := movingPages[path.Base(p.path)]
		if need == nil {
			continue
		}
		found++
		t.Run(p.path, func(t *testing.T) {
			p := &page{path: p.path, blocks: slices.Clone(p.blocks)}
			for i, b := range p.blocks {
				if b.note == movingNote {
					p.blocks[i].note, p.blocks[i].tested = "", false
				}
			}
			for _, program := range need {
				if _, err := exec.LookPath(program); err != nil {
					t.Fatalf("%s needs %s; make check PART=moving installs it", p.path, program)
				}
			}
			standsFor, address := redisStandsFor, ""
			switch need[0] {
			case "psql":
				standsFor, address = postgresStandsFor, startPostgres(t)
			case "moto_server":
				startSQS(t)
			default:
				address = startRedis(t)
			}
			for i := range p.blocks {
				if address != "" {
					p.blocks[i].text = strings.ReplaceAll(p.blocks[i].text, standsFor, address)
				}
			}
			s, err := newScript(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range s.compare(p, run(t, root, p, s)) {
				t.Error(err)
			}
		})
	}
	if found != len(movingPages) {
		t.Errorf("there are %d of %d pages", found, len(movingPages))
	}
}

// startRedis starts an empty Redis that ends with the test, and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	start(t, address, exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()))
	return address
}

// startSQS starts a mock of SQS that ends with the test. Programs find it through their environment.
func startSQS(t *testing.T) {
	t.Helper()
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	start(t, address, exec.Command("moto_server", "-p", port))
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": "http://" + address, "AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"} {
		t.Setenv(name, value)
	}
}

// startPostgres starts an empty PostgreSQL that ends with the test, and returns its address. Everybody may connect.
// PostgreSQL refuses to run as root, so a test that runs as root starts it as Debian's user postgres.
func startPostgres(t *testing.T) string {
	t.Helper()
	places, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(places) == 0 {
		t.Fatal("there is no PostgreSQL server; make check PART=moving installs it")
	}
	bin := places[len(places)-1]
	dir, err := os.MkdirTemp("", "moving") // the parents of t.TempDir are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	command := func(name string, arguments ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(bin, name), arguments...)
		c.Dir = dir
		return c
	}
	if os.Geteuid() == 0 {
		owner, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		as := command
		command = func(name string, arguments ...string) *exec.Cmd {
			c := as(name, arguments...)
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
			return c
		}
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	start(t, address, command("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"))
	testkit.Eventually(t, "PostgreSQL serves, which it does after it listens", func() bool {
		return command("pg_isready", "-h", "127.0.0.1", "-p", port).Run() == nil
	})
	return address
}

// start starts a server that listens on address, and ends it with the test.
func start(t *testing.T, address string, server *exec.Cmd) {
	t.Helper()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() { server.Process.Signal(os.Interrupt); <-ended })
	testkit.Eventually(t, server.Path+" answers", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v", server.Path, err)
		default:
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}
