package runner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/container"
	"github.com/daybookq/daybook/runner/program"
	"github.com/daybookq/daybook/runner/runlog"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/script"
	"github.com/daybookq/daybook/runner/task"
	"github.com/daybookq/daybook/runner/wasi"
	"github.com/daybookq/daybook/runner/webhook"
)

// version is a version of a handler that the runner can run, from its configuration or from the server.
type version struct {
	id       string // "" in the configuration
	client   string // "" for all clients
	typ      string
	document handler.Document
	program  *program.Settings // of kind exec, and of every handler in the configuration
	images   *container.Images // of kind container, of the configuration
	file     string            // of kind wasi, in the configuration: the file of the module
	// implicit: the type is without a handler, and its jobs name their own binaries.
	implicit bool
}

// kinds creates executors of handlers. It holds everything that the handlers of one kind share.
type kinds struct {
	sandbox    *sandbox.Sandbox
	scripts    *script.Pool
	guests     *wasi.Pool // nil if the runner runs no guests
	web        webhook.Settings
	containers *container.Engine // nil if no handler needs one
	accept     []string
	programs   map[string]*Handler // of the configuration, by name
	logs       *runlog.Keeper      // of kind exec
}

const (
	defaultBatch    = 100 // jobs in a batch
	defaultRequests = 10  // requests of a handler at a time
)

var errNotAccepted = errors.New("this runner does not accept the kind")

// check returns why the runner cannot run a stored handler, or nil.
func (k *kinds) check(v *version) error {
	if !slices.Contains(k.accept, v.document.Kind) {
		return fmt.Errorf("its kind is %s: %w", v.document.Kind, errNotAccepted)
	}
	switch v.document.Kind {
	case handler.Exec:
		of := k.programs[v.document.Program]
		if of == nil || of.Document.Kind != handler.Exec {
			return fmt.Errorf("it runs the program %q, which the configuration of this runner does not have", v.document.Program)
		}
		v.program = &of.Program
		v.document.Options = within(v.options(), of.Document.Options)
	case handler.Script:
		return k.scripts.Check(v.document.Lang)
	case handler.WASI:
		g := k.guest(v)
		return k.guests.Check(&g)
	case handler.Container:
		v.document.Options = within(v.options(), k.containers.Limits())
	}
	return nil
}

// guest returns the settings of a version of kind wasi.
func (k *kinds) guest(v *version) wasi.Handler {
	g := wasi.Handler{
		Client: v.client, Binary: v.document.Binary, Permissions: v.document.RequiredPermissions, Extensions: v.document.RequiredExtensions, Options: v.options(),
		Local: v.id == "" && !v.implicit,
	}
	if v.file != "" {
		g.Binary, g.File = "", v.file
	}
	return g
}

// close closes everything that the handlers of one kind share.
func (k *kinds) close() error {
	if k.guests != nil {
		k.guests.Close()
	}
	err := k.scripts.Close()
	if k.containers != nil {
		err = errors.Join(err, k.containers.Close())
	}
	return err
}

// try returns why a runner with so many slots cannot run a handler in the configuration, or nil.
func (k *kinds) try(name string, h *Handler, slots int) error {
	v := version{typ: name, document: h.Document, program: &h.Program, images: h.Images, file: h.Binary}
	e, err := k.executor(&v)
	if err != nil {
		return err
	}
	e.Close()
	if n := v.options().Slots; n > slots {
		return fmt.Errorf("options.slots is %d, and the runner has %d slots; set concurrency to at least %d, or lower options.slots", n, slots, n)
	}
	if h.Document.Kind == handler.HTTP {
		return k.web.CheckURL(h.Document.URL)
	}
	return nil
}

// executor returns the executor of a version. check has accepted the version, or it is in the configuration.
func (k *kinds) executor(v *version) (task.Executor, error) {
	switch v.document.Kind {
	case handler.Exec:
		set := *v.program
		set.ChainTypes = v.document.ChainTypes
		e, err := program.New(k.sandbox, set, v.options())
		if err != nil {
			return nil, err
		}
		e.KeepLogs(k.logs)
		return e, nil
	case handler.HTTP:
		return webhook.New(k.web, v.document)
	case handler.Script:
		h := script.Handler{ID: v.id, Client: v.client, Type: v.typ, Document: v.document}
		if v.id == "" {
			h.ID, h.Local = "local "+v.typ, &v.program.Grants
		}
		return k.scripts.Executor(h)
	case handler.WASI:
		return k.guests.Executor(k.guest(v))
	case handler.Container:
		h := container.Handler{Images: v.images, Options: v.options()}
		if v.program != nil {
			h.ExitCodes = v.program.ExitCodes
		}
		return k.containers.Executor(h)
	}
	return nil, fmt.Errorf("the kind %s is not known", v.document.Kind)
}

// within returns options with the configuration's limits, or lower ones: a client that stores a handler must not raise
// them.
func within(o handler.Options, limits *handler.Options) *handler.Options {
	if limits != nil {
		o.TimeoutMs = lower(o.TimeoutMs, limits.TimeoutMs)
		o.MemoryBytes = lower(o.MemoryBytes, limits.MemoryBytes)
		o.InlineBytes = lower(o.InlineBytes, limits.InlineBytes)
		o.OutputBytes = lower(o.OutputBytes, limits.OutputBytes)
	}
	return &o
}

// lower returns the lower of two limits. 0 means no limit.
func lower(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func (v *version) options() handler.Options {
	if v.document.Options == nil {
		return handler.Options{}
	}
	return *v.document.Options
}

// batch returns the most jobs in a run of the version.
func (v *version) batch() int {
	o := v.options()
	switch {
	case v.document.Kind == handler.Exec && v.program.Frames == "", v.document.Kind == handler.HTTP && !o.Batch, v.document.Kind == handler.WASI, v.document.Kind == handler.Container:
		return 1
	}
	return cmp.Or(o.BatchSize, defaultBatch)
}

// most returns the most runs of the version at a time, on a runner with so many slots.
func (v *version) most(slots int) int {
	o := v.options()
	fit := max(slots/cmp.Or(o.Slots, 1), 1)
	switch {
	case o.Concurrency > 0:
		return min(o.Concurrency, fit)
	case v.document.Kind == handler.HTTP:
		return min(defaultRequests, fit)
	}
	return fit
}
