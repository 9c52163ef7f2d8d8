//go:build unix

package check

import (
	"context"
	"flag"
	"net"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

var moving = flag.Bool("moving", false, "run the pages about moving beside the systems that they are about")

// movingNote is the note of the blocks that need another system.
const movingNote = "docs/check TestMoving"

// movingPages are the pages with such blocks, and the programs that these need.
var movingPages = map[string][]string{
	"from-redis-streams.md": {"redis-server", "redis-cli"},
	"from-bullmq.md":        {"redis-server", "node", "npm"},
	"from-celery.md":        {"redis-server", "redis-cli", "celery"},
	"from-sidekiq.md":       {"redis-server", "redis-cli", "ruby", "sidekiq"},
}

// redisStandsFor is the address of Redis on the pages.
const redisStandsFor = "127.0.0.1:6379"

// TestMoving runs pages about moving, with the blocks that need the other system, against a Redis of its own.
func TestMoving(t *testing.T) {
	if !*moving {
		t.Skip("skipped: it needs Redis, Celery, Sidekiq and BullMQ; make check-moving installs and runs them")
	}
	root, pages := pages(t)
	for _, p := range pages {
		need := movingPages[path.Base(p.path)]
		if need == nil {
			continue
		}
		t.Run(p.path, func(t *testing.T) {
			p := &page{path: p.path, blocks: slices.Clone(p.blocks)}
			for i, b := range p.blocks {
				if b.note == movingNote {
					p.blocks[i].note, p.blocks[i].tested = "", false
				}
			}
			for _, program := range need {
				if _, err := exec.LookPath(program); err != nil {
					t.Fatalf("%s needs %s; make check-moving installs it", p.path, program)
				}
			}
			redis := startRedis(t)
			for i := range p.blocks {
				p.blocks[i].text = strings.ReplaceAll(p.blocks[i].text, redisStandsFor, redis)
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
}

// startRedis starts an empty Redis that ends with the test, and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); server.Wait() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal("Redis does not answer")
		}
	}
}
