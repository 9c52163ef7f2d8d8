package work

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/manifest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/digest"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner"
	"github.com/daybookq/daybook/runner/container"
	"github.com/daybookq/daybook/runner/program"
)

// File is the part of a runner's file beyond the values of flags.
type File struct {
	Handlers     map[string]*runner.Handler
	Interpreters map[string]string
	Containers   ContainersTable
	Wasi         wasiTable
}

// workTables are the tables of the file. All other entries are values of flags.
type workTables struct {
	Handlers     map[string]HandlerTable `toml:"handlers"`
	Interpreters map[string]string       `toml:"interpreters"`
	Containers   ContainersTable         `toml:"containers"`
	WASI         wasiTable               `toml:"wasi"`
}

// wasiTable has the limits of stored handlers of kind wasi, and of binaries that jobs name:
//
//	[wasi]
//	memory_bytes = 1073741824
//	timeout_ms = 3600000
type wasiTable struct {
	MemoryBytes int64 `toml:"memory_bytes"`
	TimeoutMs   int64 `toml:"timeout_ms"`
	CacheBytes  int64 `toml:"cache_bytes"`
}

// Limits returns the limits of guests.
func (t *wasiTable) Limits() (l runner.WASILimits, err error) {
	if t.TimeoutMs > job.MaxTimeoutMs {
		return l, terminal.Usagef("wasi.timeout_ms must be at most %d, not %d", job.MaxTimeoutMs, t.TimeoutMs)
	}
	return runner.WASILimits{MemoryBytes: t.MemoryBytes, Timeout: time.Duration(t.TimeoutMs) * time.Millisecond, CacheBytes: t.CacheBytes}, nil
}

// HandlerTable is a handler in the file:
//
//	[handlers.upper]
//	kind = "exec"
//	argv = ["tr", "a-z", "A-Z"]
//	options = { concurrency = 2 }
type HandlerTable struct {
	Kind  string    `toml:"kind"`
	Types *[]string `toml:"types"`

	program.Settings

	URL string `toml:"url"`

	ChainTypes []string `toml:"chain_types"`

	Lang       string `toml:"lang"`
	Source     string `toml:"source"`
	SourceFile string `toml:"source_file"`
	Before     string `toml:"before"`
	BeforeEach string `toml:"before_each"`
	AfterEach  string `toml:"after_each"`
	EID        string `toml:"eid"`

	Images              *[]string `toml:"images"`
	Manifest            string    `toml:"manifest"` // a file with the keys below
	Name                string    `toml:"name"`
	Namespace           string    `toml:"namespace"`
	Version             string    `toml:"version"`
	Description         string    `toml:"description"`
	Binary              string    `toml:"binary"` // an address or a file
	RequiredExtensions  []string  `toml:"required_extensions"`
	RequiredPermissions []string  `toml:"required_permissions"`

	Options optionsTable `toml:"options"`
}

// keysOf are the keys of a handler, except kind, types and options, by its kind.
var keysOf = map[string][]string{
	handler.Exec:      {"argv", "shell", "dir", "frames", "exit_codes", "chain_types", "log_bytes", "open_files", "processes", "file_bytes", "env", "network", "read_only", "read_write"},
	handler.HTTP:      {"url", "chain_types"},
	handler.Container: {"images", "exit_codes"},
	handler.Script:    {"lang", "source", "source_file", "before", "before_each", "after_each", "eid", "chain_types", "env", "network", "read_only", "read_write"},
	handler.WASI:      append([]string{"manifest"}, manifestKeys...),
}

var manifestKeys = []string{"name", "namespace", "version", "description", "binary", "required_extensions", "required_permissions"}

// checkKeys refuses keys that only handlers of other kinds have, even with a value of false or 0.
func checkKeys(kind string, keys []string) error {
	for _, key := range keys {
		var kinds []string
		for _, k := range handler.Kinds {
			if slices.Contains(keysOf[k], strings.ToLower(key)) { // the decoder also ignores case
				kinds = append(kinds, k)
			}
		}
		if len(kinds) > 0 && !slices.Contains(kinds, kind) {
			return fmt.Errorf("%s must not be given for a handler of kind %s; it is for %s", key, kind, strings.Join(kinds, " and "))
		}
	}
	return nil
}

type optionsTable struct {
	Batch       bool  `toml:"batch"`
	BatchSize   int   `toml:"batch_size"`
	Concurrency int   `toml:"concurrency"`
	Weight      int   `toml:"weight"`
	Slots       int   `toml:"slots"`
	TimeoutMs   int64 `toml:"timeout_ms"`
	IdleMs      int64 `toml:"idle_ms"`
	MaxRuns     int   `toml:"max_runs"`
	MemoryBytes int64 `toml:"memory_bytes"`
	InlineBytes int64 `toml:"inline_bytes"`
	OutputBytes int64 `toml:"output_bytes"`
}

// ReadFile returns the tables of work in the configuration files of a command.
func ReadFile(cmd *cobra.Command) (*File, error) {
	tables, dir, files := config.WorkTables(cmd)
	file, err := Parse(tables, dir)
	if err != nil {
		return nil, terminal.Usagef("configuration %s: %w", strings.Join(files, ", "), err)
	}
	return file, nil
}

// Parse parses tables. Relative paths in them are relative to dir.
func Parse(tables map[string]any, dir string) (*File, error) {
	text, err := toml.Marshal(tables)
	if err != nil {
		return nil, err
	}
	var t workTables
	strict := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := strict.Decode(&t); err != nil {
		if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok {
			return nil, fmt.Errorf("%s is not known", strings.Join(missing.Errors[0].Key(), "."))
		}
		if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
			return nil, fmt.Errorf("%s: %s", strings.Join(wrong.Key(), "."), typeError(wrong))
		}
		return nil, err
	}
	file := &File{Handlers: map[string]*runner.Handler{}, Interpreters: t.Interpreters, Containers: t.Containers, Wasi: t.WASI}
	for lang := range t.Interpreters {
		if !slices.Contains(handler.Langs, lang) {
			return nil, fmt.Errorf("interpreters.%s: the languages are %s", lang, strings.Join(handler.Langs, ", "))
		}
	}
	raw, _ := tables["handlers"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(t.Handlers)) {
		table := t.Handlers[name]
		keys, _ := raw[name].(map[string]any)
		h, err := table.handler(name, dir, slices.Sorted(maps.Keys(keys)))
		if err != nil {
			return nil, fmt.Errorf("handlers.%s: %w", name, err)
		}
		file.Handlers[name] = h
	}
	return file, checkTypes(file.Handlers)
}

// checkTypes refuses two handlers of a type.
func checkTypes(handlers map[string]*runner.Handler) error {
	of := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		types := []string{name}
		if own := handlers[name].Types; own != nil {
			types = *own
		}
		for _, typ := range types {
			if other := of[typ]; other != "" {
				return fmt.Errorf("handlers.%s and handlers.%s both run the type %s", other, name, typ)
			}
			of[typ] = name
		}
	}
	return nil
}

// typeError describes a value of the wrong type, and the type that was expected.
func typeError(err *toml.DecodeError) string {
	text := strings.TrimPrefix(err.Error(), "toml: ")
	wanted := map[string]string{
		"string": "a text in quotes", "[]string": "a list of texts", "int": "a whole number", "int64": "a whole number", "float64": "a number", "bool": "true or false",
		"map[string]string": "a table of texts", "work.optionsTable": "a table",
	}
	if _, typ, ok := strings.Cut(text, " of type "); ok && wanted[strings.TrimPrefix(typ, "*")] != "" {
		return "must be " + wanted[strings.TrimPrefix(typ, "*")]
	}
	return text
}

// handler returns the handler of a table, which has these keys.
func (t *HandlerTable) handler(name, dir string, keys []string) (*runner.Handler, error) {
	if err := job.CheckName("its name", name); err != nil {
		return nil, err
	}
	if !slices.Contains(handler.Kinds, t.Kind) {
		return nil, fmt.Errorf("kind must be one of %s, not %q", strings.Join(handler.Kinds, ", "), t.Kind)
	}
	if err := checkKeys(t.Kind, keys); err != nil {
		return nil, err
	}
	if t.Types != nil {
		for _, typ := range *t.Types {
			if err := job.CheckName("types", typ); err != nil {
				return nil, err
			}
		}
	}
	if t.SourceFile != "" {
		if t.Source != "" {
			return nil, errors.New("source_file must not be given together with source")
		}
		text, err := os.ReadFile(below(dir, t.SourceFile))
		if err != nil {
			return nil, fmt.Errorf("source_file: %w", err)
		}
		t.Source = string(text)
	}
	o := handler.Options(t.Options)
	h := &runner.Handler{Types: t.Types, Program: t.Settings, Document: handler.Document{
		Kind: t.Kind, Lang: t.Lang, Source: t.Source, Before: t.Before, BeforeEach: t.BeforeEach, AfterEach: t.AfterEach, EID: t.EID, URL: t.URL, ChainTypes: t.ChainTypes, Options: &o,
	}}
	if t.Kind == handler.Exec {
		h.Document.Program = name
	}
	var err error
	if h.Images, err = t.images(); err != nil {
		return nil, err
	}
	if t.Kind == handler.WASI {
		if err := t.guest(h, dir, keys); err != nil {
			return nil, err
		}
	}
	if len(h.Document.Source) > job.MaxHandlerBytes {
		return nil, fmt.Errorf("source has %d bytes; the maximum is %d", len(h.Document.Source), job.MaxHandlerBytes)
	}
	return h, h.Document.Check()
}

// guest sets the fields of a handler of kind wasi: from the keys of the table, or from the file of manifest.
func (t *HandlerTable) guest(h *runner.Handler, dir string, keys []string) error {
	d := &h.Document
	d.Name, d.Namespace, d.Version, d.Description, d.Binary = t.Name, t.Namespace, t.Version, t.Description, t.Binary
	d.RequiredExtensions, d.RequiredPermissions = t.RequiredExtensions, t.RequiredPermissions
	if t.Manifest != "" {
		for _, key := range keys {
			if slices.Contains(manifestKeys, key) {
				return fmt.Errorf("%s must not be given together with manifest", key)
			}
		}
		path := below(dir, t.Manifest)
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
		read, err := manifest.Parse(text)
		if err != nil {
			return fmt.Errorf("manifest %s: %w", path, err)
		}
		read.Options = d.Options
		h.Document, dir = read, filepath.Dir(path)
	}
	if d.Binary == "" {
		return nil // Check reports that it is missing
	}
	if _, err := digest.Parse(d.Binary); err == nil {
		return nil
	}
	h.Binary = below(dir, d.Binary)
	sum, err := fileDigest(h.Binary)
	if err != nil {
		return fmt.Errorf("binary: neither the address of a blob nor a file: %w", err)
	}
	d.Binary = sum.String()
	return nil
}

// below returns a path that is relative to dir.
func below(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// fileDigest returns the SHA-256 of a file.
func fileDigest(path string) (sum digest.SHA256, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return sum, fmt.Errorf("%s is no regular file", path)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return sum, err
	}
	return digest.SHA256(hash.Sum(nil)), nil
}

// images returns the images of a handler, or nil if it does not have a list.
func (t *HandlerTable) images() (*container.Images, error) {
	if t.Images == nil {
		return nil, nil
	}
	list, err := container.ParseImages(*t.Images)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	return list, nil
}
