package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/ingest/registry"
)

// heartbeatEvery is so short that a runner is lost while its leases, of one to six seconds, still run.
const heartbeatEvery = 600 * time.Millisecond

// heartbeat reports that a runner is alive. A runner that was declared lost returns with a new instance. It drops its
// claims, as it should, or continues with them: then the server must refuse its reports.
func (u *user) heartbeat(r *runner) {
	if u.s.isGone() {
		return
	}
	info := registry.Info{Instance: fmt.Sprint(r.instance)}
	switch _, _, err := u.s.engine.Heartbeat(context.Background(), r.name, info, u.random.IntN(10) == 0); {
	case errors.Is(err, registry.ErrLost):
		r.instance++
		u.s.log("%s was lost, and goes on as instance %d", r.name, r.instance)
		if u.random.IntN(3) == 0 {
			r.held, r.numbers = nil, newNumbering()
		}
	case err != nil:
		u.unexpected("heartbeat", err)
	case u.random.IntN(100) == 0:
		u.unexpected("goodbye", u.s.engine.Goodbye(context.Background(), r.name, info.Instance))
	}
}
