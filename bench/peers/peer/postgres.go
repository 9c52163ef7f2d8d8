package peer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookq/daybook/bench/peers/process"
)

// postgres is a PostgreSQL server with an empty database.
type postgres struct {
	process *process.Process
	pool    *pgxpool.Pool
}

// postgresPlaces are where Debian keeps the programs of a server.
const postgresPlaces = "/usr/lib/postgresql/*/bin"

const postgresDurable = "fsync=on, synchronous_commit=on, full_page_writes=on; shared_buffers=512MB, max_wal_size=4GB"

// postgresUser is the server's user if this process runs as root, since PostgreSQL refuses to run as root.
const postgresUser = "postgres"

func postgresSettings(port int) []string {
	var args []string
	for _, setting := range []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "port=" + strconv.Itoa(port), "max_connections=200",
		"fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=512MB", "max_wal_size=4GB",
	} {
		args = append(args, "-c", setting)
	}
	return args
}

// initPostgres creates the files of a new database in a directory.
func initPostgres(ctx context.Context, dir string) error {
	path, err := find("initdb", postgresPlaces)
	if err != nil {
		return err
	}
	made, err := process.Start(process.Command{
		Path: path, Dir: dir, User: postgresUser, Args: []string{"-D", dir, "-U", "daybook", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"},
	})
	if err != nil {
		return err
	}
	select {
	case <-made.Done():
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", context.Cause(ctx), made.Close())
	}
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err != nil {
		return fmt.Errorf("initdb made no database: %w", made.Err())
	}
	return nil
}

// startPostgres starts a server on a copy of the files in template.
func startPostgres(ctx context.Context, template, dir string) (*postgres, error) {
	path, err := find("postgres", postgresPlaces)
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if out, err := exec.CommandContext(ctx, "cp", "-a", template, data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy %s: %w: %s", template, err, out)
	}
	command := process.Command{
		Path: path, Dir: dir, User: postgresUser, Stop: syscall.SIGINT, // a fast shutdown: it does not wait for clients
		Args: append([]string{"-D", data}, postgresSettings(port)...),
	}
	if err := command.Own(dir); err != nil {
		return nil, err
	}
	started, err := process.Start(command)
	if err != nil {
		return nil, err
	}
	p := &postgres{process: started}
	p.pool, err = pgxpool.New(ctx, fmt.Sprintf("postgres://daybook@127.0.0.1:%d/postgres?pool_max_conns=80", port))
	if err == nil {
		err = started.Until(ctx, p.pool.Ping)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, p.Close())
	}
	return p, nil
}

func (p *postgres) Pid() int { return p.process.Pid() }

func (p *postgres) Close() error {
	if p.pool != nil {
		p.pool.Close()
	}
	return p.process.Close()
}
