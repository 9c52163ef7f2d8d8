package peer

import (
	"context"
	"fmt"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// faktory is named in the results, but cannot be measured.
type faktory struct{}

func (faktory) Name() string { return "faktory" }

func (faktory) Describe(context.Context) (measure.Description, error) {
	return measure.Description{}, fmt.Errorf("%w: Debian has no package of it, and the Go module proxy refuses to serve its module "+
		"(github.com/contribsys/faktory), so it cannot be built", measure.ErrMissing)
}

func (faktory) Does(measure.Work) bool { return false }

func (f faktory) Start(ctx context.Context, _ string) (measure.Session, error) {
	_, err := f.Describe(ctx)
	return nil, err
}
