package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/go-json-experiment/json"
)

// garbagePercent is the target of Go's garbage collector. Runs leave little garbage, and a collection costs more than
// memory.
const garbagePercent = 800

// process runs guests.
type process struct {
	modules *modules
	pages   pages
	sender  sender
	answers chan []byte // answers to the request of the current run
	specs   map[string]*Spec
}

// maxSpecs bounds the number of remembered specs. All runs of a handler have the same spec.
const maxSpecs = 100

// serve runs guests until the runner closes stdin.
func serve(dir, compiled string) error {
	debug.SetGCPercent(garbagePercent)
	ctx := context.Background()
	m, err := newModules(ctx, dir, filepath.Join(dir, Compiled, compiled))
	if err != nil {
		return err
	}
	p := &process{modules: m, sender: sender{to: os.Stdout}, answers: make(chan []byte, 1), specs: map[string]*Spec{}}
	frames := NewReader(os.Stdin)
	var now *run           // the current run; nil if there is none
	var done chan struct{} // closed when the current run ends
	free := func() bool {  // reports whether no run is running
		if now == nil {
			return true
		}
		select {
		case <-done:
			now = nil
			return true
		default:
			return false
		}
	}
	for {
		f, err := frames.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch f.Kind {
		case Run, RunStream:
			if !free() {
				<-done // it has already sent its result
			}
			if now, err = p.begin(&f); err != nil {
				return err
			}
			if now == nil {
				continue
			}
			if f.Kind == Run && !now.spec.HTTP {
				p.finish(ctx, now) // no further frame concerns it: no goroutine is needed
				now = nil
				continue
			}
			done = make(chan struct{})
			go func(r *run, done chan struct{}) {
				defer close(done)
				p.finish(ctx, r)
			}(now, done)
		case Input:
			if !free() && f.Run == now.number && now.stdin != nil && !now.stdin.add(f.Content) {
				return errors.New("the runner has sent more input than it may")
			}
		case Answer:
			if !free() && f.Run == now.number {
				select {
				case p.answers <- append([]byte(nil), f.Content...):
				default:
					return errors.New("the runner has sent an answer without a request")
				}
			}
		default:
			return fmt.Errorf("the runner has sent a frame of kind %d", f.Kind)
		}
	}
}

// begin returns the run of a frame. If this machine lacks the resources for it, begin sends the result and returns nil.
func (p *process) begin(f *Frame) (*run, error) {
	text, input, ok := cutBytes(f.Content)
	if !ok {
		return nil, errors.New("the runner has sent a run without a spec")
	}
	spec := p.specs[string(text)]
	if spec == nil {
		spec = &Spec{}
		if err := json.Unmarshal(text, spec); err != nil {
			return nil, fmt.Errorf("the runner has sent a malformed spec: %w", err)
		}
		if len(p.specs) >= maxSpecs {
			clear(p.specs)
		}
		p.specs[string(text)] = spec
	}
	r := &run{
		process: p, number: f.Run, spec: spec, memory: account{pages: &p.pages, limit: spec.MemoryBytes},
		stdout: stdout{sender: &p.sender, run: f.Run}, stderr: stderr{sender: &p.sender, run: f.Run},
	}
	if f.Kind == RunStream || len(input) > 0 {
		var err error
		if r.stdin, err = newStdin(&p.sender, f.Run, input, f.Kind == Run); err != nil {
			if result := ended(0, "open the input: ", err); result.End == Lack {
				p.sender.send(Done, f.Run, result.Append(nil))
				return nil, nil
			}
			return nil, err
		}
	}
	return r, nil
}

// finish runs a guest and sends its result.
func (p *process) finish(ctx context.Context, r *run) {
	result := r.do(ctx)
	if r.stdin != nil {
		r.stdin.close()
	}
	result.Stderr, result.Output = r.stderr.end(), r.stdout.held
	p.modules.trim(ctx)
	p.sender.send(Done, r.number, result.Append(nil))
}
