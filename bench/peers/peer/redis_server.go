package peer

import (
	"context"
	"fmt"
	"strconv"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/process"
)

// redisServer is a Redis that syncs its append-only file before it answers any command. Three drivers use it.
type redisServer struct {
	process *process.Process
	port    int
}

const redisProgram = "redis-server"

const redisDurable = "appendonly yes, appendfsync always; no snapshots, and no rewrites of the file, which would only make it slower"

func describeRedis(ctx context.Context, driver string) (measure.Description, error) {
	return describe(ctx, measure.Description{Driver: driver, Durable: redisDurable}, redisProgram, "--version")
}

func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	started, port, err := startServer(redisProgram, dir, func(port int) []string {
		return []string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "",
			"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0",
		}
	})
	if err != nil {
		return nil, err
	}
	s := &redisServer{started, port}
	if err := untilReady(ctx, started, process.Answers(port)); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *redisServer) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

func (s *redisServer) Pid() int { return s.process.Pid() }

func (s *redisServer) Close() error { return s.process.Close() }
