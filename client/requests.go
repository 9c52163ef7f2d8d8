package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
)

// about makes a request about the object with an id. Its path is before+id+after. A text that is not an id is refused
// when the request is sent.
func about(method, before, id, after string) transport.Request {
	path, err := idPath(before, id, after)
	r := transport.New(method, path)
	r.Err = err
	return r
}

// aboutQueue makes a request about a queue. Wrong names are refused when the request is sent.
func aboutQueue(method, client, typ, after string) transport.Request {
	r := transport.New(method, "/queues/"+client+"/"+typ+after)
	for field, name := range map[string]string{"client": client, "type": typ} {
		if err := job.CheckName(field, name); err != nil {
			r.Err = fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
		}
	}
	return r
}

// aboutRunner makes a request about a runner. A wrong id is refused when the request is sent.
func aboutRunner(method, id string) transport.Request {
	r := transport.New(method, "/runners/"+id)
	if err := job.CheckName("runner_id", id); err != nil {
		r.Err = fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	return r
}

// post makes a request with a JSON body.
func post(path string, body any, repeat transport.Repeating) transport.Request {
	r := transport.New(http.MethodPost, path).With(body)
	r.Repeat = repeat
	return r
}

// askJob sends a request that is answered with the document of a job.
func (c *Client) askJob(ctx context.Context, r transport.Request) (*Job, error) {
	a, err := c.conn.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	j, err := decodeJob(a)
	if err != nil {
		return nil, err
	}
	return c.decodeJob(j), nil
}

// idPath returns the path before+id+after. It refuses a text that is not an id.
func idPath(before, id, after string) (string, error) {
	if _, err := job.ParseID(id); err != nil {
		return "", fmt.Errorf("%w: id %q: %w", problem.ErrBadRequest, id, err)
	}
	return before + id + after, nil
}
