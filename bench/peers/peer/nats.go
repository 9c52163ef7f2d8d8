package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/process"
)

// nats is a JetStream work queue: a stream from which a message is deleted when it is acknowledged.
type nats struct{}

const natsProgram = "nats-server"

func (nats) Name() string { return "nats" }

func (nats) Describe(ctx context.Context) (measure.Description, error) {
	return describe(ctx, measure.Description{
		Driver: "nats", Client: moduleVersion("github.com/nats-io/nats.go"),
		Durable: "a stream of files with one replica, sync_interval: always",
		Weaker:  "a delivery (a claim) is written to the consumer's file about ten times a second, not before it is answered",
		Usage:   "a work queue and one pull consumer; in bulk: atomic batches, which are synced once; a job at a time: Publish; Fetch without waiting; acknowledgements, of which the last waits for the server; Consume as the worker",
	}, natsProgram, "--version")
}

func (nats) Does(w measure.Work) bool {
	return w.Kind != measure.Exchange && w.Callers <= measure.Connections
}

const natsSettings = `listen: "127.0.0.1:%d"
jetstream { store_dir: %q, sync_interval: always }
`

func (nats) Start(ctx context.Context, dir string) (measure.Session, error) {
	path, err := find(natsProgram)
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	settings := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(settings, fmt.Appendf(nil, natsSettings, port, dir), 0o600); err != nil {
		return nil, err
	}
	started, err := process.Start(process.Command{Path: path, Dir: dir, Args: []string{"-c", settings}})
	if err != nil {
		return nil, err
	}
	s := &natsSession{process: started, url: fmt.Sprintf("nats://127.0.0.1:%d", port)}
	if err := untilReady(ctx, started, s.createStream); err != nil {
		return nil, err
	}
	return s, nil
}

type natsSession struct {
	process *process.Process
	url     string
	batches atomic.Int64 // numbers the atomic batches
}

func (s *natsSession) connect() (*natsgo.Conn, jetstream.JetStream, error) {
	conn, err := natsgo.Connect(s.url, natsgo.NoReconnect())
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	return conn, js, err
}

func (s *natsSession) createStream(ctx context.Context) error {
	conn, js, err := s.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: queueName, Subjects: []string{queueName}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
		Replicas: 1, AllowAtomicPublish: true,
	})
	if err != nil {
		return err
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: group, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1, AckWait: runLimit,
	})
	return err
}

func (s *natsSession) Pid() int { return s.process.Pid() }

func (s *natsSession) Close() error { return s.process.Close() }

func (s *natsSession) Fill(ctx context.Context, jobs int) error { return fill(ctx, s, jobs, 1000) }

func (s *natsSession) Dial(ctx context.Context, _ int) (measure.Conn, error) {
	conn, js, err := s.connect()
	if err != nil {
		return nil, err
	}
	consumer, err := js.Consumer(ctx, queueName, group)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsConn{session: s, conn: conn, js: js, consumer: consumer}, nil
}

type natsConn struct {
	session  *natsSession
	conn     *natsgo.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
	held     []jetstream.Msg
}

func (c *natsConn) Create(ctx context.Context, jobs int) error {
	if jobs > 1 {
		return c.createBatch(ctx, jobs)
	}
	_, err := c.js.Publish(ctx, queueName, []byte(payload))
	return err
}

// createBatch publishes an atomic batch: the server stores all of its messages when the last one arrives, syncs once, and
// answers that message. It also answers the first message, so that a client need not send the rest if the stream refuses
// it.
func (c *natsConn) createBatch(ctx context.Context, jobs int) error {
	id := strconv.FormatInt(c.session.batches.Add(1), 10)
	body := []byte(payload)
	for i := 1; i < jobs; i++ {
		m := &natsgo.Msg{Subject: queueName, Data: body, Header: natsgo.Header{
			"Nats-Batch-Id": []string{id}, "Nats-Batch-Sequence": []string{strconv.Itoa(i)},
		}}
		if err := c.conn.PublishMsg(m); err != nil {
			return err
		}
	}
	answer, err := c.conn.RequestMsgWithContext(ctx, &natsgo.Msg{Subject: queueName, Data: body, Header: natsgo.Header{
		"Nats-Batch-Id": []string{id}, "Nats-Batch-Sequence": []string{strconv.Itoa(jobs)}, "Nats-Batch-Commit": []string{"1"},
	}})
	if err != nil {
		return err
	}
	var stored struct {
		Error *struct{ Description string } `json:"error"`
		Count int                           `json:"count"`
	}
	if err := json.Unmarshal(answer.Data, &stored); err != nil {
		return fmt.Errorf("%w: %w", errLostJobs, err)
	}
	if stored.Error != nil || stored.Count != jobs {
		return fmt.Errorf("%w: %s", errLostJobs, answer.Data)
	}
	return nil
}

func (c *natsConn) Claim(_ context.Context, most int) (int, error) {
	batch, err := c.consumer.FetchNoWait(most)
	if err != nil {
		return 0, err
	}
	c.held = c.held[:0]
	for m := range batch.Messages() {
		if len(m.Data()) != measure.PayloadBytes {
			return 0, errLostJobs
		}
		c.held = append(c.held, m)
	}
	return len(c.held), batch.Error()
}

// Complete acknowledges all messages. The server handles the acknowledgements of a connection in order, so the answer to
// the last one covers all.
func (c *natsConn) Complete(ctx context.Context) error {
	last := len(c.held) - 1
	for _, m := range c.held[:last] {
		if err := m.Ack(); err != nil {
			return err
		}
	}
	return c.held[last].DoubleAck(ctx)
}

func (c *natsConn) Close() error {
	c.conn.Close()
	return nil
}

func (s *natsSession) Runs(w measure.Work) bool { return w.Kind == measure.Worker }

// Run drains the stream with Consume, with as many callbacks as the work has handlers. Each waits for the server to
// confirm the acknowledgement, as the workers of the other systems do.
func (s *natsSession) Run(ctx context.Context, t *measure.Turn) error {
	conn, js, err := s.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	consumer, err := js.Consumer(ctx, queueName, group)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	left := newCount(t.Jobs, stop)
	t.Begin()
	for range t.Work.Callers {
		var options []jetstream.PullConsumeOpt
		if t.Work.Batch > 0 {
			options = append(options, jetstream.PullMaxMessages(t.Work.Batch))
		}
		consuming, err := consumer.Consume(func(m jetstream.Msg) {
			if err := m.DoubleAck(ctx); err != nil {
				stop(err)
				return
			}
			left.done()
		}, options...)
		if err != nil {
			return err
		}
		defer consuming.Stop()
	}
	err = left.wait(ctx)
	t.End()
	return err
}
