package container

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
)

// document is the payload of a job, as etcdq has it. The names of fields are compared without regard to case, dashes and
// underscores, so that working_dir is WorkingDir.
type document struct {
	Container struct {
		Config config
		others
	}
	Fileset struct {
		Input  *input
		Output *output
		others
	}
	others
}

// config is what a job may say about its container. There is nothing in it that gives the container a right.
type config struct {
	Image      string
	Cmd        []string
	Entrypoint []string
	Env        []string
	WorkingDir string
	User       string
	Labels     map[string]string
	StopSignal string
	others
}

type output struct {
	Name     string
	Patterns []string
	others
}

type input struct {
	Name     string
	Patterns []string
	Version  int
	others
}

// others are the fields that are not allowed. They may be empty, because programs that encode the engine's own type send
// all of its fields.
type others struct {
	Other map[string]jsontext.Value `json:",embed"`
}

// The bounds of a payload. The whole of it is bounded by the server.
const (
	maxTexts      = 1000 // arguments; entries of the environment
	maxLabels     = 50
	maxLabelBytes = 1 << 10
	maxFilters    = 100 // patterns of a fileset
	maxTextBytes  = 4 << 10
)

// mountPoint is where the workspace is in every container.
const mountPoint = "/workspace"

var errPayload = errors.New("the payload is refused")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errPayload, fmt.Errorf(format, args...))
}

// decode reads and checks a payload.
func decode(payload []byte) (*document, error) {
	var d document
	if err := json.Unmarshal(payload, &d, json.MatchCaseInsensitiveNames(true)); err != nil {
		if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONPointer != "" {
			return nil, refused("%s has a value of another type than it must have", shortened(dotted(wrong.JSONPointer)))
		}
		return nil, refused("it is not a JSON object with Container and Fileset: %w", err)
	}
	for _, level := range []struct {
		name string
		others
	}{
		{"", d.others}, {"Container.", d.Container.others}, {"Container.Config.", d.Container.Config.others}, {"Fileset.", d.Fileset.others},
	} {
		if err := level.check(level.name); err != nil {
			return nil, err
		}
	}
	if in := d.Fileset.Input; in != nil {
		if err := errors.Join(in.check("Fileset.Input."), checkFileset("Fileset.Input", in.Name, in.Patterns)); err != nil {
			return nil, err
		}
		if in.Version < 0 {
			return nil, refused("Fileset.Input.Version must not be negative: %d", in.Version)
		}
		if in.Name == "" {
			d.Fileset.Input = nil
		}
	}
	if out := d.Fileset.Output; out != nil {
		if err := errors.Join(out.check("Fileset.Output."), checkFileset("Fileset.Output", out.Name, out.Patterns)); err != nil {
			return nil, err
		}
		if out.Name == "" {
			d.Fileset.Output = nil
		}
	}
	return &d, d.Container.Config.check()
}

func dotted(p jsontext.Pointer) string {
	return strings.Join(slices.Collect(p.Tokens()), ".")
}

// check refuses fields that are not empty.
func (o *others) check(prefix string) error {
	for _, name := range slices.Sorted(maps.Keys(o.Other)) {
		if !empty(o.Other[name]) {
			return refused("%s is not a field that a job may set", shortened(prefix+name))
		}
	}
	return nil
}

func empty(v jsontext.Value) bool {
	switch string(v) {
	case "null", "false", "0", `""`, "[]", "{}":
		return true
	}
	return false
}

func checkFileset(field, name string, patterns []string) error {
	if name == "" {
		if len(patterns) > 0 {
			return refused("%s has patterns and no name", field)
		}
		return nil
	}
	if err := job.CheckName(field+".Name", name); err != nil {
		return refused("%w", err)
	}
	if len(patterns) > maxFilters {
		return refused("%s.Patterns has %d patterns; the maximum is %d", field, len(patterns), maxFilters)
	}
	return checkTexts(field+".Patterns", patterns, maxTextBytes)
}

func checkTexts(field string, texts []string, mostBytes int) error {
	if len(texts) > maxTexts {
		return refused("%s has %d texts; the maximum is %d", field, len(texts), maxTexts)
	}
	for i, text := range texts {
		if strings.ContainsRune(text, 0) {
			return refused("%s[%d] has a NUL byte", field, i)
		}
		if len(text) > mostBytes {
			return refused("%s[%d] has %d bytes; the maximum is %d", field, i, len(text), mostBytes)
		}
	}
	return nil
}

var (
	environmentEntry = regexp.MustCompile(`^[^=\x00]+=`)
	numericUser      = regexp.MustCompile(`^[1-9][0-9]{0,8}(:[1-9][0-9]{0,8})?$`)
	stopSignals      = []string{"", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGKILL"}
)

// maxArgumentBytes is what Linux takes as one argument.
const maxArgumentBytes = 128 << 10

func (c *config) check() error {
	const of = "Container.Config."
	if c.Image == "" {
		return refused(of + "Image is missing")
	}
	for field, texts := range map[string][]string{"Cmd": c.Cmd, "Entrypoint": c.Entrypoint, "Env": c.Env} {
		if err := checkTexts(of+field, texts, maxArgumentBytes); err != nil {
			return err
		}
	}
	for i, entry := range c.Env {
		if !environmentEntry.MatchString(entry) {
			return refused(of+"Env[%d] must be NAME=value", i)
		}
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "DAYBOOK_") || name == "TRACEPARENT" {
			return refused(of+"Env[%d] sets %s, which the runner sets", i, shortened(name))
		}
	}
	if _, err := c.directory(); err != nil {
		return err
	}
	if c.User != "" && !numericUser.MatchString(c.User) {
		return refused(of+"User must be the number of a user, or user:group, and neither may be 0: %q", shortened(c.User))
	}
	if len(c.Labels) > maxLabels {
		return refused(of+"Labels has %d labels; the maximum is %d", len(c.Labels), maxLabels)
	}
	for name, value := range c.Labels {
		if name == "" || len(name)+len(value) > maxLabelBytes || strings.ContainsRune(name+value, 0) {
			return refused(of+"Labels: the label %q is empty, has NUL bytes, or has more than %d bytes", shortened(name), maxLabelBytes)
		}
	}
	if !slices.Contains(stopSignals, c.StopSignal) {
		return refused(of+"StopSignal must be one of %s, not %q", strings.Join(stopSignals[1:], ", "), shortened(c.StopSignal))
	}
	return nil
}

// directory returns the working directory, relative to the workspace.
func (c *config) directory() (string, error) {
	dir := c.WorkingDir
	if path.IsAbs(dir) {
		clean := path.Clean(dir)
		rest, inside := strings.CutPrefix(clean+"/", mountPoint+"/")
		if !inside {
			return "", refused("Container.Config.WorkingDir must be relative to the workspace, or in %s: %q", mountPoint, shortened(dir))
		}
		dir = strings.TrimSuffix(rest, "/")
	}
	dir = path.Clean("./" + dir)
	if !filepath.IsLocal(dir) || len(dir) > maxTextBytes || strings.ContainsRune(dir, 0) || strings.Count(dir, "/") >= maxDepth {
		return "", refused("Container.Config.WorkingDir leaves the workspace, or is too long: %q", shortened(c.WorkingDir))
	}
	return dir, nil
}
