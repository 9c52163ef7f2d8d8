package sim

import (
	"context"
	"fmt"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

// version is a version of a handler or fileset in the journal.
type version[T comparable] struct {
	id      job.ID
	number  int
	content T
}

// versions has the versions of all handlers, or of all filesets, by client and name, the oldest first.
type versions[T comparable] map[[2]string][]version[T]

// put adds a version at the place of o in the journal. If the newest version has the same content, it adds none and
// reports true. It keeps at most most versions.
func (v versions[T]) put(o operation, client, name string, content T, most int) (same bool) {
	key := [2]string{client, name}
	number := 1
	if newest := v.newest(client, name); newest != nil {
		if newest.content == content {
			return true
		}
		number = newest.number + 1
	}
	list := append(v[key], version[T]{job.NewID(o.at, o.seq, 0), number, content})
	v[key] = list[max(0, len(list)-most):]
	return false
}

// newest returns the newest version, or nil if there is none.
func (v versions[T]) newest(client, name string) *version[T] {
	if list := v[[2]string{client, name}]; len(list) > 0 {
		return &list[len(list)-1]
	}
	return nil
}

func (v versions[T]) remove(client, name string) { delete(v, [2]string{client, name}) }

// fewestVersions is how many versions a store with small bounds keeps (package store, smallBounds).
const fewestVersions = 3

// removed deletes a handler or a fileset. missing is the refusal if there is none.
func removed[C job.Command](u *user, cmd C, by func(context.Context, C) (ingest.Receipt, error), missing job.Refusal) {
	var receipt ingest.Receipt
	err := u.request(func(ctx context.Context) (err error) {
		receipt, err = by(ctx, cmd)
		return err
	})
	refusal := job.Granted
	if err == missing {
		refusal, err = missing, nil
	}
	u.unexpected(cmd.Verb(), err)
	u.s.log("%s %+v: %v, %v %v", cmd.Verb(), cmd, receipt, refusal, err)
	if err == nil && receipt.Seq != 0 {
		u.w.account.answered(receipt, cmd, refusal, nil)
	}
}

// readBack compares the versions that a store lists, the newest first, with those in the journal. err is the error of the
// list, and missing the error for no versions. check compares one version.
func readBack[D any, T comparable](v versions[T], client, name string, listed []D, err, missing error, check func(*version[T], D) error) error {
	want := v[[2]string{client, name}]
	if len(want) == 0 && err == missing {
		return nil
	}
	// A store with small bounds keeps fewer versions. But no store drops one before it has that many.
	if err != nil || len(listed) > len(want) || len(listed) < min(len(want), fewestVersions) {
		return fmt.Errorf("%s of client %q has the versions %+v, %v; the journal has %+v", name, client, listed, err, want)
	}
	for i, d := range listed {
		if err := check(&want[len(want)-1-i], d); err != nil {
			return err
		}
	}
	return nil
}
