package peer

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/process"
)

// queued is wilsonzlin's message queue: MessagePack over HTTP.
type queued struct{}

const queuedProgram = "queued"

// queuedDelay is how long queued collects requests before it syncs. Its default of 10 ms suits thousands of connections;
// with the few connections of these works a shorter delay is faster.
const queuedDelay = 100 * time.Microsecond

func (queued) Name() string { return "queued" }

func (queued) Describe(ctx context.Context) (measure.Description, error) {
	return describe(ctx, measure.Description{
		Driver: "queued", Client: "net/http, " + moduleVersion("github.com/vmihailenco/msgpack/v5"),
		Durable: fmt.Sprintf("always; --batch-sync-delay-us %d instead of its default 10000, which is slower with so few connections", queuedDelay.Microseconds()),
		Usage:   "POST /queue/…/messages/push, poll and delete in MessagePack, with as many messages as the batch has",
	}, queuedProgram, "--version")
}

func (queued) Does(w measure.Work) bool {
	return w.Kind != measure.Worker && w.Kind != measure.Exchange && w.Callers <= measure.Connections
}

func (queued) Start(ctx context.Context, dir string) (measure.Session, error) {
	started, port, err := startServer(queuedProgram, dir, func(port int) []string {
		return []string{
			"--data-dir", dir, "--interface", "127.0.0.1", "--port", strconv.Itoa(port),
			"--batch-sync-delay-us", strconv.FormatInt(queuedDelay.Microseconds(), 10),
		}
	})
	if err != nil {
		return nil, err
	}
	s := &queuedSession{started, fmt.Sprintf("http://127.0.0.1:%d/queue/%s", port, queueName)}
	if err := untilReady(ctx, started, s.createQueue); err != nil {
		return nil, err
	}
	return s, nil
}

type queuedSession struct {
	process *process.Process
	url     string
}

func (s *queuedSession) createQueue(ctx context.Context) error {
	c := s.conn()
	defer c.Close()
	return c.send(ctx, http.MethodPut, s.url, nil)
}

func (s *queuedSession) Pid() int { return s.process.Pid() }

func (s *queuedSession) Close() error { return s.process.Close() }

func (s *queuedSession) Fill(ctx context.Context, jobs int) error { return fill(ctx, s, jobs, 1000) }

func (s *queuedSession) Dial(context.Context, int) (measure.Conn, error) { return s.conn(), nil }

func (s *queuedSession) conn() *queuedConn {
	return &queuedConn{url: s.url + "/messages/", http: &http.Client{Transport: &http.Transport{
		MaxConnsPerHost: 1, DisableCompression: true, ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
	}}}
}

type queuedConn struct {
	url     string
	http    *http.Client
	request bytes.Buffer
	answer  bytes.Buffer
	held    []queuedMessage
}

// The documents of queued's API.
type (
	queuedNew struct {
		Contents []byte `msgpack:"contents"`
		Timeout  uint32 `msgpack:"visibility_timeout_secs"`
	}
	queuedPush struct {
		Messages []queuedNew `msgpack:"messages"`
	}
	queuedPoll struct {
		Count   int   `msgpack:"count"`
		Timeout int64 `msgpack:"visibility_timeout_secs"`
	}
	queuedPolled struct {
		Messages []struct {
			Contents []byte `msgpack:"contents"`
			ID       uint64 `msgpack:"id"`
			PollTag  uint32 `msgpack:"poll_tag"`
		} `msgpack:"messages"`
	}
	queuedMessage struct {
		ID      uint64 `msgpack:"id"`
		PollTag uint32 `msgpack:"poll_tag"`
	}
	queuedDelete struct {
		Messages []queuedMessage `msgpack:"messages"`
	}
)

// send sends c.request and reads the answer.
func (c *queuedConn) send(ctx context.Context, method, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/msgpack")
	answer, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	c.answer.Reset()
	if _, err := c.answer.ReadFrom(answer.Body); err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: status %d: %.200q", method, url, answer.StatusCode, c.answer.Bytes())
	}
	return nil
}

func (c *queuedConn) post(ctx context.Context, call string, document any) error {
	c.request.Reset()
	encoder := msgpack.NewEncoder(&c.request)
	encoder.UseCompactInts(true)
	if err := encoder.Encode(document); err != nil {
		return err
	}
	return c.send(ctx, http.MethodPost, c.url+call, c.request.Bytes())
}

func (c *queuedConn) Create(ctx context.Context, jobs int) error {
	push := queuedPush{make([]queuedNew, jobs)}
	for i := range push.Messages {
		push.Messages[i].Contents = []byte(payload)
	}
	return c.post(ctx, "push", push)
}

func (c *queuedConn) Claim(ctx context.Context, most int) (int, error) {
	if err := c.post(ctx, "poll", queuedPoll{most, int64(runLimit.Seconds())}); err != nil {
		return 0, err
	}
	var polled queuedPolled
	if err := msgpack.Unmarshal(c.answer.Bytes(), &polled); err != nil {
		return 0, fmt.Errorf("%w: %w", errLostJobs, err)
	}
	c.held = c.held[:0]
	for _, m := range polled.Messages {
		if len(m.Contents) != measure.PayloadBytes {
			return 0, errLostJobs
		}
		c.held = append(c.held, queuedMessage{m.ID, m.PollTag})
	}
	return len(c.held), nil
}

func (c *queuedConn) Complete(ctx context.Context) error {
	return c.post(ctx, "delete", queuedDelete{c.held})
}

func (c *queuedConn) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
