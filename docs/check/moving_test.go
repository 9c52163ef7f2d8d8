//go:build unix

package check

import (
	"context"
	"flag"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

var moving = flag.Bool("moving", false, "run docs/how-to/moving.md beside the queues that it is about")

// movingPage is the page about moving from other queues, and movingNote is the note of its blocks that need these queues.
const (
	movingPage = "docs/how-to/moving.md"
	movingNote = "docs/check TestMoving"
)

// movingPrograms are the programs that the page and testdata/moving need. moto_server is a mock of Amazon's services.
var movingPrograms = []string{"redis-server", "redis-cli", "psql", "moto_server", "python", "ruby", "node", "npm", "go", "curl", "jq"}

// The addresses that Redis and PostgreSQL have on the page.
const (
	redisStandsFor    = "127.0.0.1:6379"
	postgresStandsFor = "127.0.0.1:5432"
)

// TestMoving runs the page about moving, including the blocks that need another queue, beside a new Redis, PostgreSQL and
// mock of SQS. testdata/moving creates the jobs that wait in them.
func TestMoving(t *testing.T) {
	if !*moving {
		t.Skip("skipped: it needs Redis, PostgreSQL, Celery, Sidekiq, BullMQ and moto; scripts/tools moving installs them, and make check PART=moving runs this test")
	}
	for _, program := range movingPrograms {
		_, err := exec.LookPath(program)
		testkit.NoError(t, err, movingPage, "needs", program, "which scripts/tools moving installs")
	}
	root := testkit.Must(filepath.Abs("../.."))(t)
	p := testkit.Must(readPage(root, movingPage))(t)
	redis, postgres := startRedis(t), startPostgres(t)
	startSQS(t)
	addresses := strings.NewReplacer(redisStandsFor, redis, postgresStandsFor, postgres)
	needQueues := 0
	for i := range p.blocks {
		b := &p.blocks[i]
		b.text = addresses.Replace(b.text)
		if b.note == movingNote {
			b.note, b.tested = "", false
			needQueues++
		}
	}
	testkit.MustHold(t, needQueues >= 6, p.path, needQueues, "blocks with the note of this test, and one for each of six queues is expected")
	s := testkit.Must(newScript(p))(t)
	dir := t.TempDir()
	createWaiting(t, dir, redis, postgres)
	for _, err := range s.compare(p, run(t, root, dir, p, s)) {
		t.Error(err)
	}
}

// createWaiting runs testdata/moving/create.sh in dir, the directory of the page. The script creates jobs in each of the
// other queues, and installs the packages of npm that the page's program needs.
func createWaiting(t *testing.T, dir, redis, postgres string) {
	t.Helper()
	files := testkit.Must(filepath.Abs("testdata/moving"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // it downloads modules and packages
	defer cancel()
	create := exec.CommandContext(ctx, "bash", filepath.Join(files, "create.sh"))
	create.Dir = dir
	create.Env = append(goEnvironment(t), "FILES="+files, "REDIS_URL=redis://"+redis+"/0", "DATABASE_URL=postgres://postgres@"+postgres+"/postgres")
	create.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	create.Cancel = func() error { return testkit.KillGroup(create) }
	out, err := create.CombinedOutput()
	testkit.NoError(t, err, "testdata/moving/create.sh", out)
}

// startRedis starts an empty Redis that ends with the test, and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	address := testkit.Must(daybooktest.FreeAddress())(t)
	_, port := testkit.Must2(net.SplitHostPort(address))(t)
	start(t, address, exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()))
	return address
}

// startSQS starts a mock of SQS that ends with the test. Programs find it through their environment.
func startSQS(t *testing.T) {
	t.Helper()
	address := testkit.Must(daybooktest.FreeAddress())(t)
	_, port := testkit.Must2(net.SplitHostPort(address))(t)
	start(t, address, exec.Command("moto_server", "-p", port))
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": "http://" + address, "AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"} {
		t.Setenv(name, value)
	}
}

// startPostgres starts an empty PostgreSQL that ends with the test, and returns its address. Everybody may connect.
// PostgreSQL refuses to run as root, so a test that runs as root starts it as Debian's user postgres.
func startPostgres(t *testing.T) string {
	t.Helper()
	places := testkit.Must(filepath.Glob("/usr/lib/postgresql/*/bin"))(t)
	testkit.MustHold(t, len(places) != 0, "there is no PostgreSQL server; scripts/tools moving installs it")
	bin := places[len(places)-1]
	dir := testkit.Must(os.MkdirTemp("", "moving"))(t) // the parents of t.TempDir are closed to other users
	t.Cleanup(func() { os.RemoveAll(dir) })
	command := func(name string, arguments ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(bin, name), arguments...)
		c.Dir = dir
		return c
	}
	if os.Geteuid() == 0 {
		owner := testkit.Must(user.Lookup("postgres"))(t)
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		testkit.NoError(t, os.Chown(dir, uid, gid))
		as := command
		command = func(name string, arguments ...string) *exec.Cmd {
			c := as(name, arguments...)
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
			return c
		}
	}
	data := filepath.Join(dir, "data")
	out, err := command("initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync").CombinedOutput()
	testkit.NoError(t, err, out)
	address := testkit.Must(daybooktest.FreeAddress())(t)
	_, port := testkit.Must2(net.SplitHostPort(address))(t)
	start(t, address, command("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"))
	testkit.Eventually(t, "PostgreSQL serves, which it does after it listens", func() bool {
		return command("pg_isready", "-h", "127.0.0.1", "-p", port).Run() == nil
	})
	return address
}

// start starts a server that listens on address, and ends it with the test.
func start(t *testing.T, address string, server *exec.Cmd) {
	t.Helper()
	testkit.NoError(t, server.Start())
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
