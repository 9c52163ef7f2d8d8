package wasi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/wasi/guest"
)

// prepared is a module that is ready to run.
type prepared struct {
	digits  []string // SHA-256 of the module and its extensions, in hex
	spec    []byte   // encoded for the process
	allowed permissions
	// empty is set if the module exports neither a default nor _start, so there is nothing to run.
	empty bool
}

// prepare puts the module of a job into the cache, compiles it, and checks its imports. It returns a *refusal if the job
// can never run on this runner.
func (x *executor) prepare(ctx context.Context, j *client.Job) (*prepared, error) {
	p, err := x.prepareOnce(ctx, j)
	if errors.Is(err, errDamaged) { // the damaged module was deleted: fetch it again
		p, err = x.prepareOnce(ctx, j)
	}
	return p, err
}

func (x *executor) prepareOnce(ctx context.Context, j *client.Job) (*prepared, error) {
	digits, field, name, allowed := x.file, "binary", x.Binary, permissions(x.Permissions)
	switch {
	case j.BinaryAddr != "":
		var err error
		if digits, err = x.pool.fetch(ctx, "binary_addr", j.Client, j.BinaryAddr); err != nil {
			return nil, err
		}
		field, name = "binary_addr", j.BinaryAddr
		own, err := x.handlerDigits(ctx)
		if _, away := errors.AsType[*awayError](err); away {
			return nil, err
		}
		if err != nil || own != digits {
			allowed = nil // the permissions are for the handler's own binary
		}
	case x.file != "":
		name = x.File
	case x.Binary == "":
		return nil, errNoBinary
	default:
		var err error
		if digits, err = x.pool.fetch(ctx, field, x.Client, x.Binary); err != nil {
			return nil, err
		}
	}
	key := preparedKey{digits, allowed != nil}
	x.mu.Lock()
	known := x.prepared[key]
	x.mu.Unlock()
	if known != nil && x.pool.ready(known) {
		return known, nil
	}
	p, err := x.prepareModule(ctx, fmt.Sprintf("%s %s", field, name), digits, allowed)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.prepared) >= maxPrepared {
		clear(x.prepared)
	}
	x.prepared[key] = p
	return p, nil
}

// handlerDigits returns the SHA-256 of the handler's own module, or "" if the handler has no permissions, since it is not
// needed then.
func (x *executor) handlerDigits(ctx context.Context) (string, error) {
	switch {
	case len(x.Permissions) == 0 || x.Binary == "" && x.file == "":
		return "", nil
	case x.file != "":
		return x.file, nil
	}
	return x.pool.fetch(ctx, "binary", x.Client, x.Binary)
}

// maxPrepared bounds the number of modules that an executor remembers.
const maxPrepared = 1000

type preparedKey struct {
	digits  string
	allowed bool
}

// prepareModule compiles a module, and checks its memory and its imports.
func (x *executor) prepareModule(ctx context.Context, what, digits string, allowed permissions) (*prepared, error) {
	r, err := x.pool.compile(ctx, digits)
	if errors.Is(err, errDamaged) {
		x.forget(&prepared{digits: []string{digits}})
	}
	if err != nil {
		return nil, err
	}
	switch {
	case r.Error != "":
		return nil, refuse("%s cannot run: %s", what, r.Error)
	case r.MemoryBytes > x.memoryBytes && x.lowered:
		return nil, fmt.Errorf("%s cannot run here: it needs %d bytes of memory at its start, and %s allows %d", what, r.MemoryBytes, x.memoryOf, x.memoryBytes)
	case r.MemoryBytes > x.memoryBytes:
		return nil, refuse("%s cannot run: it needs %d bytes of memory at its start, and %s allows %d", what, r.MemoryBytes, x.memoryOf, x.memoryBytes)
	}
	p := &prepared{digits: []string{digits}, allowed: allowed, empty: !r.Start}
	spec := guest.Spec{Module: digits, MemoryBytes: x.memoryBytes, Proc: allowed.proc(), HTTP: allowed.http()}
	for _, name := range r.Imports {
		if builtin(name) {
			continue
		}
		extension, err := x.extension(ctx, what, name, allowed)
		if err != nil {
			return nil, err
		}
		if spec.Extensions == nil {
			spec.Extensions = map[string]string{}
		}
		spec.Extensions[name] = extension
		p.digits = append(p.digits, extension)
	}
	if p.spec, err = guest.AppendSpec(nil, &spec); err != nil {
		return nil, err
	}
	return p, nil
}

// extension returns the SHA-256 of an extension that a module imports.
func (x *executor) extension(ctx context.Context, what, name string, allowed permissions) (string, error) {
	quoted := name
	if len(quoted) > 100 {
		quoted = quoted[:100] + "…"
	}
	if !allowed.extension(name) {
		return "", refuse("%s cannot run: it imports the module %q, and has no permission for an extension of that name (extension:%s)", what, quoted, strings.ToValidUTF8(quoted, "\uFFFD"))
	}
	path := x.pool.extensions[name]
	if path == "" {
		return "", refuse("%s cannot run: it imports the extension %q, which this runner does not have", what, quoted)
	}
	value, err := x.pool.once(ctx, "extension "+name, func() (any, error) { return x.pool.load(path) })
	if err != nil {
		return "", fmt.Errorf("extension %s: %w", name, err)
	}
	digits := value.(string)
	r, err := x.pool.compile(ctx, digits)
	switch {
	case err != nil:
		return "", fmt.Errorf("extension %s: %w", name, err)
	case r.Error != "":
		return "", refuse("%s cannot run: the extension %s: %s", what, name, r.Error)
	}
	if n := slices.IndexFunc(r.Imports, func(name string) bool { return !builtin(name) }); n >= 0 {
		return "", refuse("%s cannot run: the extension %s imports the module %q, and extensions cannot import others", what, name, r.Imports[n])
	}
	return digits, nil
}

// forget discards all that is known of a run's modules, so that they are read, fetched or compiled again.
func (x *executor) forget(p *prepared) {
	for _, digits := range p.digits {
		x.pool.forget(digits)
	}
	x.mu.Lock()
	clear(x.prepared)
	x.mu.Unlock()
	if x.File != "" {
		x.pool.load(x.File) // if the file is gone, the run reports it
	}
}
