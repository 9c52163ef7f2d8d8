package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// serveSmall is a server with small files: it fills segments, volumes and memtables within a second, where the binary
// needs an hour. The binary has no flags for these sizes, so this test's own program serves, called as `serve --listen
// ADDRESS --data DIR …`. The real binary checks the data, and can serve it, too.
func serveSmall(args []string) int {
	var address, data string
	for i := 0; i+1 < len(args); i++ {
		switch args[i] {
		case "--listen":
			address = args[i+1]
		case "--data":
			data = args[i+1]
		}
	}
	failed := func(err error) int {
		fmt.Fprintln(os.Stderr, "small server:", err)
		if strings.Contains(err.Error(), syscall.ENOSPC.Error()) { // Pebble gives its reasons as texts
			return exitFiles
		}
		return 1
	}
	engine, err := ingest.Open(ingest.Options{
		Dir: data, QueueIdle: queueIdle, RunnerHeartbeat: runnerHeartbeat,
		Journal: journal.Options{SegmentBytes: 24 << 10, VolumeBytes: 150 << 10},
		Store:   store.Options{MemtableBytes: 128 << 10},
		Fatal:   func(reason string) { os.Exit(failed(fmt.Errorf("the store cannot continue: %s", reason))) },
	})
	if err != nil {
		return failed(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return failed(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	engineCtx, stopEngine := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	serving, stopServing := context.WithCancel(ctx)
	go func() { ended <- engine.Run(engineCtx); stopServing() }()
	blobs, err := blob.OpenDir(ctx, filepath.Join(data, "blobs"), blob.Options{})
	if err != nil {
		stopEngine()
		return failed(err)
	}
	server, err := api.New(api.Options{Engine: engine, Blobs: &api.Blobs{Store: func() (*blob.Store, error) { return blobs, nil }, Collector: &blob.Collector{}}})
	if err != nil {
		stopEngine()
		return failed(err)
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	err = server.Run(serving, l, 5*time.Second)
	stopEngine()
	if engineErr := <-ended; err == nil {
		err = engineErr
	}
	err = errors.Join(err, blobs.Close())
	if err != nil {
		return failed(err)
	}
	return 0
}
