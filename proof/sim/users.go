package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// Users are goroutines that live as long as a server. Each has its own random source, and waits a random time of some
// microseconds before each request. So no two events happen at the same time, and a seed plays out the same way each
// time.

// lossPercent is the chance that a user does not wait for an answer, and the chance that an answer is lost.
const lossPercent = 8

var errLost = errors.New("the answer was lost on its way")

// user is the part that all users share.
type user struct {
	w      *world
	s      *server
	random *rand.Rand
	key    *job.Key // of a tenant; nil: none
}

func (s *server) user(id int) user {
	return user{s.w, s, rand.New(rand.NewPCG(s.w.seed, uint64(s.number)*100+uint64(id))), nil}
}

// rest waits for up to most, and reports whether the server still takes requests.
func (u *user) rest(most time.Duration) bool {
	time.Sleep(time.Duration(1+u.random.Int64N(int64(most/time.Microsecond))) * time.Microsecond)
	select {
	case <-u.s.gone:
		return false
	case <-u.s.quiet:
		return false
	default:
		return true
	}
}

// request calls f, which makes a request, and returns errLost if the answer was lost.
func (u *user) request(f func(ctx context.Context) error) error {
	ctx := context.Background()
	if u.w.lie != actorLies {
		ctx = job.WithKey(ctx, u.key)
	}
	if u.random.IntN(100) < lossPercent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(u.random.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	err := f(ctx)
	if u.s.isGone() {
		return errLost
	}
	if err == nil && u.random.IntN(100) < lossPercent {
		return errLost
	}
	return err
}

// send sends a command by a method of the engine, as request does, and returns the answer.
func send[C, A any](u *user, by func(context.Context, C) (A, ingest.Receipt, error), cmd C) (answer A, receipt ingest.Receipt, err error) {
	err = u.request(func(ctx context.Context) (err error) {
		answer, receipt, err = by(ctx, cmd)
		return err
	})
	return answer, receipt, err
}

// notStored reports whether an error means that the command was not stored.
func notStored(err error) bool {
	if errors.Is(err, errLost) || errors.Is(err, ingest.ErrUnknown) || errors.Is(err, ingest.ErrApply) {
		return false
	}
	for _, known := range []error{
		ingest.ErrNotStored, ingest.ErrWritesFailed, ingest.ErrClosed, ingest.ErrNotReady, ingest.ErrOverloaded, ingest.ErrDiskFull, ingest.ErrStale,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// unexpected records a violation if err is an error that no user should ever see.
func (u *user) unexpected(what string, err error) {
	if err == nil || notStored(err) || errors.Is(err, store.ErrClosed) || errors.Is(err, errLost) || errors.Is(err, ingest.ErrUnknown) || errors.Is(err, ingest.ErrApply) && u.s.injected() > 0 {
		return
	}
	u.w.violation(fmt.Errorf("%s: %w", what, err))
}
