package daybook

import (
	"context"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/peer"
)

// echo is no queue, but a server that answers the messages of the driver daybook-stream. Its rate is the limit for one
// job per message.
type echo struct{}

func (echo) Name() string { return "echo-stream" }

func (echo) Describe(context.Context) (measure.Description, error) {
	return measure.Description{
		Driver: "echo-stream", System: "a WebSocket server that does nothing, in a process of its own", Client: "github.com/coder/websocket",
		Durable: "stores nothing: it is no queue, but shows the most that streams in JSON allow",
		Usage:   "the messages of daybook-stream; a create is answered, and sent as a job",
	}, nil
}

func (echo) Does(w measure.Work) bool { return streamDoes(w) && w.Kind == measure.Lifecycle }

func (echo) Start(ctx context.Context, dir string) (measure.Session, error) {
	s, err := peer.StartEcho(ctx, dir)
	if err != nil {
		return nil, err
	}
	return newStreams(s, false), nil
}
