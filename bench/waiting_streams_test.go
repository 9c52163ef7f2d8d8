package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/testkit"
)

const (
	waitingStreams = 10_000
	wokenStreams   = 300
	// maxWaitingMemory is one and a half times the server's usual memory, since the garbage from opening the streams
	// varies.
	maxWaitingMemory = 600 << 20
)

// TestWaitingStreams: ten thousand runners wait in streams. A new job soon wakes exactly one of them, and the waiting
// runners cost the server little memory.
func TestWaitingStreams(t *testing.T) {
	if url := os.Getenv(holderURL); url != "" {
		holdStreams(t, url)
		return
	}
	s := serve(t)
	h := startHolder(t, s.URL())
	h.next("held")
	l := NewLoad(s.URL(), 1)
	defer l.Close()
	times := load.NewLatencies()
	for range wokenStreams {
		began := time.Now()
		testkit.NoError(t, l.Create(t.Context()))
		testkit.MustEqual(t, h.next("got "), "1", "one job was sent as")
		times.Add(time.Since(began))
	}
	memory, _ := testkit.Must2(rig.Resident(s.Pid()))(t)
	testkit.Holds(t, memory <= maxWaitingMemory, "the server has", memory>>20, "MiB resident; the bound is", maxWaitingMemory>>20)
	t.Logf("%d streams: %d MiB resident; from a create to its job p50 %v, p99 %v", waitingStreams, memory>>20, times.Quantile(0.5), times.Quantile(0.99))
	h.release()
	testkit.Equal(t, h.next("pushed "), strconv.Itoa(wokenStreams))
	h.end()
}

// holdStreams runs in the second process of TestWaitingStreams. It opens streams with a credit of one, prints a line when
// all are open, and one for each push, until its input ends.
func holdStreams(t *testing.T, url string) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var reading, opening sync.WaitGroup
	var mu sync.Mutex
	pushes := 0
	places := make(chan struct{}, 64)
	for i := range waitingStreams {
		places <- struct{}{}
		opening.Go(func() {
			defer func() { <-places }()
			conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(url, "http")+"/stream", &websocket.DialOptions{Subprotocols: []string{"daybook.v1"}})
			if err == nil {
				err = conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"n":1,"hello":{"runner_id":"r%d"}}`+"\n"+`{"n":2,"subscribe":{"credit":1}}`, i))
			}
			for answers := 0; err == nil && answers < 2; {
				var text []byte
				_, text, err = conn.Read(ctx)
				answers += bytes.Count(text, []byte(`"ok"`))
			}
			if err != nil {
				t.Errorf("stream %d: %v", i, err)
				return
			}
			reading.Go(func() {
				for n := 3; ; n++ {
					_, text, err := conn.Read(ctx)
					if err != nil {
						_ = conn.CloseNow()
						return
					}
					_, jobs, pushed := bytes.Cut(text, []byte(`"jobs":[`))
					if !pushed {
						continue
					}
					mu.Lock()
					pushes++
					fmt.Println("got", bytes.Count(jobs, []byte(`{"job_id":"`)))
					mu.Unlock()
					testkit.Check(t, conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"n":%d,"complete":{"claim_id":%q,"code":"ok"}}`, n, claimID(text))))
				}
			})
		})
	}
	opening.Wait()
	fmt.Println("held")
	testkit.Must(io.Copy(io.Discard, os.Stdin))(t)
	mu.Lock()
	fmt.Println("pushed", pushes)
	mu.Unlock()
	stop()
	reading.Wait()
}
