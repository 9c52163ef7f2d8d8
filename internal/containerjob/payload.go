package containerjob

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// Document is the payload of a job. Names of fields match regardless of case, dashes and underscores, so that working_dir
// is WorkingDir.
type Document struct {
	Container struct {
		Config Config
		earlier
		others
	}
	Fileset struct {
		Input  *Input
		Output *Output
		others
	}
	// States may have the entry that etcdq's submitters write: the job is queued.
	States []state
	others
}

// Config is the part of a payload that describes the container. No field gives the container a right.
type Config struct {
	Image       string
	Cmd         []string
	Entrypoint  []string
	Env         []string
	WorkingDir  string
	User        string
	Hostname    string
	Domainname  string
	Labels      map[string]string
	Volumes     map[string]struct{}
	StopSignal  string
	StopTimeout *int // seconds
	ignored
	others
}

// ignored are fields of Docker's Config that mean nothing for a job's container. Only their types are checked.
type ignored struct {
	// The runner reads stdout and stderr. Stdin is empty, as in a container without an attached client, and nobody could
	// use a terminal.
	AttachStdin, AttachStdout, AttachStderr, OpenStdin, StdinOnce, Tty bool
	// A container gets no network.
	NetworkDisabled bool
	MacAddress      string
	ExposedPorts    map[string]struct{}
	// Nobody checks the health of a container that ends on its own.
	Healthcheck jsontext.Value
	// For builds, and for Windows.
	OnBuild     []string
	Shell       []string
	ArgsEscaped bool
}

// earlier are the fields, besides Config, with which Docker describes an existing container. They mean nothing for a new
// container.
type earlier struct {
	ID, Created, Path, Image, Name, Driver, Platform                               string
	ResolvConfPath, HostnamePath, HostsPath, LogPath, SysInitPath                  string
	MountLabel, ProcessLabel, AppArmorProfile                                      string
	Args                                                                           []string
	RestartCount                                                                   int
	State, NetworkSettings, GraphDriver, ExecIDs, ImageManifestDescriptor, Storage jsontext.Value
}

// Output is the fileset to store when the container has ended.
type Output struct {
	Name     string
	Patterns []string
	others
}

// Input is the fileset to lay out before the container starts.
type Input struct {
	Name     string
	Patterns []string
	Version  int
	others
}

// state is an entry of the history that etcdq keeps in a job.
type state struct {
	State, Step, Date string
	others
}

// queued is the only possible state of a new job.
const queued = "QUEUED"

// others are the fields that are refused unless they are empty.
type others struct {
	Other map[string]jsontext.Value `json:",embed"`
}

// Bounds of a payload.
const (
	// MaxBytes bounds a payload. Linux starts no program with more than 2 MiB of arguments and environment.
	MaxBytes      = 1 << 20
	MaxTexts      = 1000 // arguments; entries of the environment
	maxLabels     = 50
	maxLabelBytes = 1 << 10
	maxFilters    = 100 // patterns of a fileset
	maxStates     = 100 // written by etcdq
	maxPorts      = 1000
	maxVolumes    = 16
	MaxTextBytes  = 4 << 10
	// MaxDepth bounds the depth of a directory in the workspace.
	MaxDepth = 100
)

// MountPoint is the path of the workspace in every container.
const MountPoint = "/workspace"

// ErrRefused is wrapped by the errors of Parse. Their text names the field.
var ErrRefused = errors.New("the payload is refused")

// Refused returns an error that wraps ErrRefused.
func Refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

const example = `{"Container":{"Config":{"Image":"alpine","Cmd":["true"]}}}`

// Parse parses and checks a payload. Its errors wrap ErrRefused.
func Parse(payload []byte) (*Document, error) {
	if len(payload) > MaxBytes {
		return nil, Refused("it has %d bytes; the maximum is %d", len(payload), MaxBytes)
	}
	var d Document
	if err := json.Unmarshal(payload, &d, json.MatchCaseInsensitiveNames(true)); err != nil {
		if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONPointer != "" {
			return nil, Refused("%s has a value of another type than it must have", shortened(dotted(wrong.JSONPointer)))
		}
		what := "it is not a JSON object with Container and Fileset, such as " + example
		if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			return nil, Refused("%s: %s after %d bytes", what, strings.TrimPrefix(wrong.Err.Error(), "jsontext: "), wrong.ByteOffset)
		}
		return nil, Refused("%s", what)
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
			return nil, Refused("Fileset.Input.Version must not be negative: %d", in.Version)
		}
		if in.Name == "" {
			d.Fileset.Input = nil
		}
	}
	if out := d.Fileset.Output; out != nil {
		if err := errors.Join(out.check("Fileset.Output."), checkFileset("Fileset.Output", out.Name, out.patterns())); err != nil {
			return nil, err
		}
		if out.Name == "" {
			d.Fileset.Output = nil
		}
	}
	if err := checkStates(d.States); err != nil {
		return nil, err
	}
	return &d, d.Container.Config.check()
}

// patterns returns the patterns, or none if no fileset is named: etcdq's submitters copy the input's patterns there.
func (o *Output) patterns() []string {
	if o.Name == "" {
		return nil
	}
	return o.Patterns
}

// checkStates returns an error for the history of a job that has already started elsewhere.
func checkStates(list []state) error {
	if len(list) > maxStates {
		return Refused("States has %d entries; the maximum is %d", len(list), maxStates)
	}
	for i := range list {
		s := &list[i]
		if s.State != queued {
			return Refused("States[%d].State must be %s, because a new job has not run yet: %q", i, queued, shortened(s.State))
		}
		if err := s.check(fmt.Sprintf("States[%d].", i)); err != nil {
			return err
		}
	}
	return nil
}

func dotted(p jsontext.Pointer) string {
	return strings.Join(slices.Collect(p.Tokens()), ".")
}

// check returns an error if a field is not empty.
func (o *others) check(prefix string) error {
	for _, name := range slices.Sorted(maps.Keys(o.Other)) {
		if !empty(o.Other[name]) {
			return Refused("%s is not a field that a job may set", shortened(prefix+name))
		}
	}
	return nil
}

// empty reports whether a value is the encoded zero value of a Go type, since programs encode Docker's own types. An
// object is empty if all its members are. The zero time is empty, too.
func empty(v jsontext.Value) bool {
	d := jsontext.NewDecoder(bytes.NewReader(v))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return err == io.EOF
		}
		switch token.Kind() {
		case jsontext.KindTrue:
			return false
		case jsontext.KindNumber:
			if n, err := token.Float(); err != nil || n != 0 {
				return false
			}
		case jsontext.KindString:
			if _, n := d.StackIndex(d.StackDepth()); d.StackDepth() > 0 && n%2 == 1 { // the name of a member
				continue
			}
			if text := token.String(); text != "" && text != "0001-01-01T00:00:00Z" {
				return false
			}
		case jsontext.KindBeginArray:
			if d.PeekKind() != jsontext.KindEndArray {
				return false
			}
		}
	}
}

func checkFileset(field, name string, patterns []string) error {
	if name == "" {
		if len(patterns) > 0 {
			return Refused("%s has patterns and no name", field)
		}
		return nil
	}
	if err := job.CheckName(field+".Name", name); err != nil {
		return Refused("%w", err)
	}
	if len(patterns) > maxFilters {
		return Refused("%s.Patterns has %d patterns; the maximum is %d", field, len(patterns), maxFilters)
	}
	return checkTexts(field+".Patterns", patterns, MaxTextBytes)
}

func checkTexts(field string, texts []string, mostBytes int) error {
	if len(texts) > MaxTexts {
		return Refused("%s has %d texts; the maximum is %d", field, len(texts), MaxTexts)
	}
	for i, text := range texts {
		if strings.ContainsRune(text, 0) {
			return Refused("%s[%d] has a NUL byte", field, i)
		}
		if len(text) > mostBytes {
			return Refused("%s[%d] has %d bytes; the maximum is %d", field, i, len(text), mostBytes)
		}
	}
	return nil
}

var (
	environmentEntry = regexp.MustCompile(`^[^=\x00]+=`)
	hostName         = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$`)
	numericUser      = regexp.MustCompile(`^[1-9][0-9]{0,8}(:[1-9][0-9]{0,8})?$`)
	// stopSignal matches a Linux signal as images name it: SIGWINCH, WINCH, 28 or SIGRTMIN+3.
	stopSignal = regexp.MustCompile(`^(?i:(SIG)?(ABRT|ALRM|BUS|CHLD|CLD|CONT|FPE|HUP|ILL|INT|IO|IOT|KILL|PIPE|POLL|PROF|PWR|QUIT|SEGV|STKFLT|STOP|SYS|TERM|TRAP|TSTP|TTIN|TTOU|URG|USR1|USR2|VTALRM|WINCH|XCPU|XFSZ|RTMIN(\+([1-9]|1[0-5]))?|RTMAX(-([1-9]|1[0-4]))?)|[1-9]|[1-5][0-9]|6[0-4])$`)
)

// maxArgumentBytes bounds one argument, as Linux does.
const maxArgumentBytes = 128 << 10

func (c *Config) check() error {
	const of = "Container.Config."
	if c.Image == "" {
		return Refused(of + "Image is missing")
	}
	for field, texts := range map[string][]string{"Cmd": c.Cmd, "Entrypoint": c.Entrypoint, "Env": c.Env} {
		if err := checkTexts(of+field, texts, maxArgumentBytes); err != nil {
			return err
		}
	}
	for i, entry := range c.Env {
		if !environmentEntry.MatchString(entry) {
			return Refused(of+"Env[%d] must be NAME=value", i)
		}
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "DAYBOOK_") || name == "TRACEPARENT" {
			return Refused(of+"Env[%d] sets %s, which the runner sets", i, shortened(name))
		}
	}
	if _, err := c.Directory(); err != nil {
		return err
	}
	if c.User != "" && !numericUser.MatchString(c.User) {
		// Only the image knows the number of a user name, but the workspace must belong to that user before the container
		// starts.
		return Refused(of+"User must be the number of a user, or user:group, and neither may be 0: %q. The command `id NAME` shows the numbers of a name, if it runs in a container of the image", shortened(c.User))
	}
	for field, name := range map[string]string{"Hostname": c.Hostname, "Domainname": c.Domainname} {
		if name != "" && !hostName.MatchString(name) {
			return Refused(of+"%s must have up to 63 letters, digits, dots and dashes: %q", field, shortened(name))
		}
	}
	if len(c.ExposedPorts) > maxPorts {
		return Refused(of+"ExposedPorts has %d ports; the maximum is %d", len(c.ExposedPorts), maxPorts)
	}
	if len(c.Volumes) > maxVolumes {
		return Refused(of+"Volumes has %d volumes; the maximum is %d", len(c.Volumes), maxVolumes)
	}
	for dir := range c.Volumes {
		if !path.IsAbs(dir) || len(dir) > MaxTextBytes {
			return Refused(of+"Volumes: %q is no absolute path", shortened(dir))
		}
	}
	if t := c.StopTimeout; t != nil && *t < 0 {
		return Refused(of+"StopTimeout must not be negative, because the runner kills a container that does not stop: %d", *t)
	}
	if len(c.Labels) > maxLabels {
		return Refused(of+"Labels has %d labels; the maximum is %d", len(c.Labels), maxLabels)
	}
	for name, value := range c.Labels {
		if name == "" || len(name)+len(value) > maxLabelBytes || strings.ContainsRune(name+value, 0) {
			return Refused(of+"Labels: the label %q is empty, has NUL bytes, or has more than %d bytes", shortened(name), maxLabelBytes)
		}
	}
	if c.StopSignal != "" && !stopSignal.MatchString(c.StopSignal) {
		return Refused(of+"StopSignal must be the name or number of a signal of Linux, such as SIGTERM, 15 or SIGRTMIN+3, not %q", shortened(c.StopSignal))
	}
	return nil
}

// Directory returns the working directory: a path relative to the workspace, or an absolute path outside of it, which is
// in the image. docker inspect shows such paths, for example / or /data.
func (c *Config) Directory() (string, error) {
	dir := path.Clean("./" + c.WorkingDir)
	if path.IsAbs(c.WorkingDir) {
		dir = path.Clean(c.WorkingDir)
		if rest, inside := strings.CutPrefix(dir+"/", MountPoint+"/"); inside {
			dir = path.Clean("./" + rest)
		}
	}
	if !path.IsAbs(dir) && !filepath.IsLocal(dir) || len(dir) > MaxTextBytes || strings.ContainsRune(dir, 0) || strings.Count(dir, "/") >= MaxDepth {
		return "", Refused("Container.Config.WorkingDir leaves the workspace, or is too long: %q", shortened(c.WorkingDir))
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		// /proc/self/fd/N as the working directory has led out of containers (CVE-2024-21626).
		if dir == kernel || strings.HasPrefix(dir, kernel+"/") {
			return "", Refused("Container.Config.WorkingDir must not be in %s, which the kernel provides: %q", kernel, shortened(c.WorkingDir))
		}
	}
	return dir, nil
}

// shortened bounds the length of a text for an error.
func shortened(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
