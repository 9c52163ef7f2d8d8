package script

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/runner/script/protocol"
)

// maxHandlers bounds the handlers that a context loads. Each version of a handler counts.
const maxHandlers = 64

// key identifies the handlers that may share a context.
type key struct {
	lang, client string
	group        string // the eid, or the id of a handler without one
	shared       bool   // group is an eid
	grants       string // a process has one environment and one set of permissions
	owner        owner
}

// owner identifies the author of a handler. Handlers of different owners share no context, because one could read and
// change the other's definitions.
type owner struct {
	local  bool
	client string
}

// host is a context: a process with the handlers that it has loaded.
type host struct {
	key     key
	child   *child
	loaded  map[string]int // numbers by ids of handlers
	runs    int            // jobs begun
	numbers int            // attempts to load a handler

	message []byte  // memory for the next batch, at most sendBytes
	limiter limiter // of prints in the log

	handlerType atomic.Pointer[string] // type of the handler that loads or runs now, for the log; not nil

	usersMu sync.Mutex
	users   map[string]bool // ids of handlers that may use the context again

	memoryBytes atomic.Int64 // limit of the running batch; 0 means no limit
}

// usable reports whether the context can run another batch: its process runs, and some handler uses it.
func (h *host) usable() bool {
	select {
	case <-h.child.ended:
		return false
	default:
	}
	h.usersMu.Lock()
	defer h.usersMu.Unlock()
	return len(h.users) > 0
}

// used reports whether anything has run in the context and may have left something behind.
func (h *host) used() bool { return h.runs > 0 || h.numbers > 0 }

// use records that a handler uses the context.
func (h *host) use(handlerID string) {
	h.usersMu.Lock()
	defer h.usersMu.Unlock()
	h.users[handlerID] = true
}

// forget records that a handler no longer uses the context.
func (h *host) forget(handlerID string) {
	h.usersMu.Lock()
	defer h.usersMu.Unlock()
	delete(h.users, handlerID)
}

// load loads a handler, unless the context has already loaded it. It returns the handler's number, or why loading
// failed.
func (h *host) load(ctx context.Context, x *executor) (int, error) {
	if number, ok := h.loaded[x.ID]; ok {
		return number, nil
	}
	h.handlerType.Store(&x.Type)
	number := h.numbers + 1
	h.numbers = number
	d := &x.Document
	message, err := protocol.Load{Number: number, Source: d.Source, Before: d.Before, BeforeEach: d.BeforeEach, AfterEach: d.AfterEach}.Append(nil, x.interpreter.encoding)
	if err != nil {
		return 0, err
	}
	h.child.begin(ctx, x.timeout)
	h.child.conn.SetWriteDeadline(time.Now().Add(x.timeout))
	h.child.write(message)
	for {
		m, err := h.child.next(loadLimit)
		switch {
		case err != nil:
			return 0, h.broken(err, "loading the handler", x.timeout)
		case m.Loaded == nil && (m.Begun || m.Done || m.Job != nil) || m.Loaded != nil && *m.Loaded != number:
			return 0, h.broken(errors.New("it answered something else than that the handler is loaded"), "", 0)
		case m.Loaded == nil:
			continue // prints
		case m.Error != "":
			return 0, errors.New(m.Error)
		}
		h.loaded[x.ID] = number
		return number, nil
	}
}

// loadLimit bounds the answer to load, which may contain an error.
const loadLimit = 1 << 20

// broken ends the process after an error of reading. It returns why the context cannot be used any more.
func (h *host) broken(err error, doing string, timeout time.Duration) error {
	switch {
	case errors.Is(err, errGone):
		return errors.New(h.child.why())
	case errors.Is(err, errTimeout):
		err = fmt.Errorf("%s took longer than timeout_ms, %d ms; its process was ended", doing, timeout.Milliseconds())
	case errors.Is(err, errStopped):
		err = fmt.Errorf("nobody waits for the job any more (%w); its process was ended", context.Cause(h.child.ctx))
	default:
		err = fmt.Errorf("its process broke the protocol of descriptor 3 and was ended: %w", err)
	}
	h.child.kill(err.Error())
	<-h.child.ended
	return err
}
