package corruption

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/daybookq/daybook/ingest"
)

// verdict is the result of a case.
type verdict string

const (
	intact        verdict = "intact"          // everything shows as before
	refused       verdict = "refused"         // the start fails, and names the file and the next step
	refusedOnRead verdict = "refused on read" // an answer names them, and all other reads are right
	window        verdict = "window"          // the last records are missing, and everything that could prove them
	lost          verdict = "LOST"            // something acknowledged is lost or altered silently
	unclear       verdict = "UNCLEAR"         // an error that does not help
	panicked      verdict = "PANIC"
	hung          verdict = "NO ANSWER"
)

var verdicts = []verdict{intact, refused, refusedOnRead, window, lost, unclear, panicked, hung}

func (v verdict) bad() bool { return v == lost || v == unclear || v == panicked || v == hung }

// opener starts a server. Tests of this package start false servers.
type opener func(ingest.Options) (server, error)

// server has the methods of a server that a case needs.
type server interface {
	see(f *fixture) (*state, error)
	check() error
	stop() error
}

func (r *running) check() error {
	first := ""
	problems, err := r.Check(func(p string) bool { first = p; return false })
	if err == nil && problems > 0 {
		err = fmt.Errorf("the check found %d problems, such as %s", problems, first)
	}
	return err
}

func openReal(o ingest.Options) (server, error) {
	r, err := open(o)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// try starts a server on the damaged files, in dir, and judges the result.
func try(d *damage, dir string, start opener) (v verdict, detail string) {
	defer func() {
		if p := recover(); p != nil {
			v, detail = panicked, fmt.Sprint(p)
		}
	}()
	files, changed := d.apply()
	if !changed {
		return intact, "nothing changed"
	}
	damaged := &fixture{files: files}
	if err := damaged.write(dir); err != nil {
		return unclear, err.Error()
	}
	defer os.RemoveAll(dir)
	s, err := start(engineOptions(dir, 1<<30))
	if err != nil {
		return refusal(err, refused), err.Error()
	}
	got, readErr := s.see(d.fixture)
	if readErr == nil {
		readErr = s.check()
	}
	stopErr := s.stop()
	if errors.Is(readErr, errUnsettled) {
		return hung, readErr.Error()
	}
	if readErr != nil {
		if diff := got.difference(d.fixture.want); diff != "" {
			return lost, diff
		}
		return refusal(readErr, refusedOnRead), readErr.Error()
	}
	if errors.Is(stopErr, errPanicked) {
		return panicked, stopErr.Error()
	}
	diff := got.difference(d.fixture.want)
	switch {
	case diff == "":
		return intact, ""
	case strings.HasPrefix(d.file, "journal"):
		for i, shorter := range d.fixture.shorter {
			if d.mayMiss(i+1) && got.difference(shorter) == "" {
				return window, ""
			}
		}
	}
	return lost, diff
}

// refusal checks that an error helps: it names a file, or the directory of the part, and the next step.
func refusal(err error, as verdict) verdict {
	text := err.Error()
	switch {
	case errors.Is(err, errPanicked):
		return panicked
	case !strings.Contains(text, "next step: "),
		!strings.Contains(text, "/journal") && !strings.Contains(text, "/store"):
		return unclear
	}
	return as
}
