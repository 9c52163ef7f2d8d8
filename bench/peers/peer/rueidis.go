package peer

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// rueidisLibrary is Redis through a client library that sends the calls of many goroutines together, as the Go client of
// Daybook can.
type rueidisLibrary struct{}

func (rueidisLibrary) Name() string { return "redis-rueidis" }

func (rueidisLibrary) Describe(ctx context.Context) (measure.Description, error) {
	d, err := describeRedis(ctx, "redis-rueidis")
	d.Client = moduleVersion("github.com/redis/rueidis")
	d.Usage = "the same commands; the callers share one client, which pipelines their calls by itself"
	return d, err
}

// Does leaves the works in bulk to the redis driver, which is faster there.
func (rueidisLibrary) Does(w measure.Work) bool {
	return w.Callers >= 64 && (w.Kind == measure.Create || w.Kind == measure.Lifecycle || w.Kind == measure.Exchange)
}

func (rueidisLibrary) Start(ctx context.Context, dir string) (measure.Session, error) {
	started, err := redis{}.Start(ctx, dir)
	if err != nil {
		return nil, err
	}
	s := started.(redisSession)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.address()}, DisableCache: true})
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, s.Close())
	}
	return &rueidisSession{s, c}, nil
}

type rueidisSession struct {
	redisSession
	client rueidis.Client
}

func (s *rueidisSession) Dial(_ context.Context, caller int) (measure.Conn, error) {
	return &rueidisConn{client: s.client, consumer: "runner-" + strconv.Itoa(caller)}, nil
}

func (s *rueidisSession) Close() error {
	s.client.Close()
	return s.redisSession.Close()
}

type rueidisConn struct {
	client   rueidis.Client
	consumer string
	ids      []string // of the entries that this caller holds
}

func (c *rueidisConn) Create(ctx context.Context, _ int) error {
	return c.client.Do(ctx, c.client.B().Xadd().Key(queueName).Id("*").FieldValue().FieldValue("p", payload).Build()).Error()
}

func (c *rueidisConn) read(most int) rueidis.Completed {
	return c.client.B().Xreadgroup().Group(group, c.consumer).Count(int64(most)).Streams().Key(queueName).Id(">").Build()
}

func (c *rueidisConn) Claim(ctx context.Context, most int) (int, error) {
	return c.claimed(c.client.Do(ctx, c.read(most)))
}

func (c *rueidisConn) claimed(result rueidis.RedisResult) (int, error) {
	c.ids = c.ids[:0]
	streams, err := result.AsXRead()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	for _, entry := range streams[queueName] {
		c.ids = append(c.ids, entry.ID)
	}
	return len(c.ids), err
}

func (c *rueidisConn) done() []rueidis.Completed {
	return []rueidis.Completed{
		c.client.B().Xack().Key(queueName).Group(group).Id(c.ids...).Build(),
		c.client.B().Xdel().Key(queueName).Id(c.ids...).Build(),
	}
}

func (c *rueidisConn) Complete(ctx context.Context) error {
	for _, result := range c.client.DoMulti(ctx, c.done()...) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

func (c *rueidisConn) Exchange(ctx context.Context, most int) (int, error) {
	results := c.client.DoMulti(ctx, append(c.done(), c.read(most))...)
	for _, result := range results[:2] {
		if err := result.Error(); err != nil {
			return 0, err
		}
	}
	return c.claimed(results[2])
}

func (c *rueidisConn) Close() error { return nil }
