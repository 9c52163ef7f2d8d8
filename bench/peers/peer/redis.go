package peer

import (
	"context"
	"fmt"
	"strconv"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// redis is a stream with a consumer group: XADD, XREADGROUP, XACK and XDEL, pipelined.
type redis struct{}

func (redis) Name() string { return "redis" }

func (redis) Describe(ctx context.Context) (measure.Description, error) {
	d, err := describeRedis(ctx, "redis")
	d.Client = "the protocol itself, pipelined"
	d.Usage = "one stream and consumer group; XADD, as many in a pipeline as the batch has; XREADGROUP COUNT; XACK and XDEL of all ids in one pipeline"
	return d, err
}

func (redis) Does(w measure.Work) bool {
	return w.Kind != measure.Worker && w.Callers <= measure.Connections
}

const group = "runners"

func (redis) Start(ctx context.Context, dir string) (measure.Session, error) {
	s, err := startRedis(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := createGroup(ctx, s); err != nil {
		return nil, fmt.Errorf("create the consumer group: %w (%w)", err, s.Close())
	}
	return redisSession{s}, nil
}

func createGroup(ctx context.Context, s *redisServer) error {
	c, err := dialResp(ctx, s.address())
	if err != nil {
		return err
	}
	defer c.close()
	c.add("XGROUP", "CREATE", queueName, group, "0", "MKSTREAM")
	if err := c.send(ctx); err != nil {
		return err
	}
	return c.reply()
}

type redisSession struct{ *redisServer }

func (s redisSession) Fill(ctx context.Context, jobs int) error { return fill(ctx, s, jobs, 1000) }

func (s redisSession) Dial(ctx context.Context, caller int) (measure.Conn, error) {
	c, err := dialResp(ctx, s.address())
	if err != nil {
		return nil, err
	}
	return &redisConn{resp: c, consumer: "runner-" + strconv.Itoa(caller)}, nil
}

type redisConn struct {
	*resp
	consumer string
	ids      []string // of the entries that this caller holds
}

func (c *redisConn) Create(ctx context.Context, jobs int) error {
	for range jobs {
		c.add("XADD", queueName, "*", "p", payload)
	}
	if err := c.send(ctx); err != nil {
		return err
	}
	return c.replies(jobs)
}

func (c *redisConn) read(most int) {
	c.add("XREADGROUP", "GROUP", group, c.consumer, "COUNT", strconv.Itoa(most), "STREAMS", queueName, ">")
}

func (c *redisConn) Claim(ctx context.Context, most int) (int, error) {
	c.read(most)
	if err := c.send(ctx); err != nil {
		return 0, err
	}
	return c.claimed()
}

// claimed reads the reply to XREADGROUP: the stream's name, and then the id, the field and the value of each entry.
func (c *redisConn) claimed() (int, error) {
	if err := c.reply(); err != nil {
		return 0, err
	}
	c.ids = c.ids[:0]
	for i := 1; i+2 < c.strings(); i += 3 {
		if len(c.at(i+2)) != measure.PayloadBytes {
			return 0, errLostJobs
		}
		c.ids = append(c.ids, string(c.at(i)))
	}
	return len(c.ids), nil
}

// done appends the commands that end the entries that this caller holds.
func (c *redisConn) done() {
	c.array(3 + len(c.ids))
	c.bulk("XACK")
	c.bulk(queueName)
	c.bulk(group)
	for _, id := range c.ids {
		c.bulk(id)
	}
	c.array(2 + len(c.ids))
	c.bulk("XDEL")
	c.bulk(queueName)
	for _, id := range c.ids {
		c.bulk(id)
	}
}

func (c *redisConn) Complete(ctx context.Context) error {
	c.done()
	if err := c.send(ctx); err != nil {
		return err
	}
	return c.replies(2)
}

func (c *redisConn) Exchange(ctx context.Context, most int) (int, error) {
	c.done()
	c.read(most)
	if err := c.send(ctx); err != nil {
		return 0, err
	}
	if err := c.replies(2); err != nil {
		return 0, err
	}
	return c.claimed()
}

func (c *redisConn) Close() error { return c.close() }
