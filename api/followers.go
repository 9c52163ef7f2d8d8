package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// followers counts the requests that follow something. Each occupies a connection that other clients need, too.
type followers struct {
	most    int64
	what    string     // the logs or results
	clients func() int // how many have keys
	mu      sync.Mutex // guards places
	places  job.Shares
}

// enter counts a request until it calls leave. It returns a problem if there are too many, of all clients or of its own.
func (f *followers) enter(ctx context.Context) (leave func(), err error) {
	owner := job.OwnerOf(ctx, f.clients)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.places.Take(owner, 1, f.most); err != nil {
		full := job.Limited(fmt.Errorf("as many requests follow %s as may, which is %d", f.what, f.most), err)
		return nil, &web.Problem{Status: http.StatusTooManyRequests, Code: web.CodeOverloaded, Detail: full.Error()}
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.places.Return(owner.Client, 1)
	}, nil
}

// now returns how many there are.
func (f *followers) now() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.places.All()
}
