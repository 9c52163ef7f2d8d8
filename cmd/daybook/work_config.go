package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner"
	"github.com/daybookq/daybook/runner/program"
)

// workFile is what the file of a runner has beside the values of flags.
type workFile struct {
	handlers     map[string]*runner.Handler
	interpreters map[string]string
}

// workTables are the tables of the file. Everything else in it are values of flags.
type workTables struct {
	Handlers     map[string]handlerTable `toml:"handlers"`
	Interpreters map[string]string       `toml:"interpreters"`
}

// handlerTable is a handler in the file:
//
//	[handlers.upper]
//	kind = "exec"
//	argv = ["tr", "a-z", "A-Z"]
//	options = { concurrency = 2 }
type handlerTable struct {
	Kind  string    `toml:"kind"`
	Types *[]string `toml:"types"`

	program.Settings

	URL string `toml:"url"`

	Lang       string `toml:"lang"`
	Source     string `toml:"source"`
	SourceFile string `toml:"source_file"`
	Before     string `toml:"before"`
	BeforeEach string `toml:"before_each"`
	AfterEach  string `toml:"after_each"`
	EID        string `toml:"eid"`

	Options optionsTable `toml:"options"`
}

// keysOf are the keys of a handler beside kind, types and options, by its kind.
var keysOf = map[string][]string{
	handler.Exec:   {"argv", "shell", "dir", "frames", "exit_codes", "chain_lines", "open_files", "processes", "file_bytes", "env", "network", "read_only", "read_write"},
	handler.HTTP:   {"url"},
	handler.Script: {"lang", "source", "source_file", "before", "before_each", "after_each", "eid", "env", "network", "read_only", "read_write"},
}

// checkKeys refuses keys of a handler that are those of other kinds only. A value of false or 0 is refused as well.
func checkKeys(kind string, keys []string) error {
	for _, key := range keys {
		var kinds []string
		for _, k := range handler.Kinds {
			if slices.Contains(keysOf[k], strings.ToLower(key)) { // as the decoder finds fields
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
}

// readWorkConfig reads the file at path, and sets the flags that it names and the command line does not.
func readWorkConfig(flags *pflag.FlagSet, path string) (*workFile, error) {
	if path == "" {
		return &workFile{}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usageError{fmt.Errorf("read configuration: %w", err)}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	file, settings, err := parseWorkConfig(text, filepath.Dir(path))
	if err == nil {
		err = setFlags(flags, settings)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("configuration %s%w", path, err)}
	}
	return file, nil
}

// setFlags sets flags, except those that the command line or the environment has set.
func setFlags(flags *pflag.FlagSet, settings []setting) error {
	for _, s := range settings {
		flag := flags.Lookup(strings.ReplaceAll(s.key, "_", "-"))
		if flag == nil || slices.Contains(notInConfig, flag.Name) {
			return fmt.Errorf(":%d: %s is no setting of a runner", s.line, s.key)
		}
		if flag.Changed {
			continue
		}
		if err := flags.Set(flag.Name, s.value); err != nil {
			return fmt.Errorf(":%d: %s: %w", s.line, s.key, plainly(err))
		}
	}
	return nil
}

// parseWorkConfig parses a file, whose relative paths are those of dir. Errors begin with ":line: " or ": ".
func parseWorkConfig(text []byte, dir string) (*workFile, []setting, error) {
	if len(text) > maxConfigBytes {
		return nil, nil, fmt.Errorf(": larger than %d bytes", maxConfigBytes)
	}
	all := map[string]any{}
	if err := toml.Unmarshal(text, &all); err != nil {
		return nil, nil, atLine(err)
	}
	tables := map[string]any{}
	for _, key := range []string{"handlers", "interpreters"} {
		if value, ok := all[key]; ok {
			tables[key] = value
			delete(all, key)
		}
	}
	for key, value := range all {
		if _, table := value.(map[string]any); table {
			return nil, nil, fmt.Errorf(": [%s] is not known; the tables are [handlers.NAME] and [interpreters]", key)
		}
	}
	settings, err := settingsOf(text, all)
	if err != nil {
		return nil, nil, err
	}
	again, err := toml.Marshal(tables)
	if err != nil {
		return nil, nil, fmt.Errorf(": %w", err)
	}
	var t workTables
	strict := toml.NewDecoder(bytes.NewReader(again)).DisallowUnknownFields()
	if err := strict.Decode(&t); err != nil {
		if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok {
			return nil, nil, fmt.Errorf(": %s is not known", strings.Join(missing.Errors[0].Key(), "."))
		}
		if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
			return nil, nil, fmt.Errorf(": %s: %s", strings.Join(wrong.Key(), "."), typeError(wrong))
		}
		return nil, nil, fmt.Errorf(": %w", err)
	}
	file := &workFile{handlers: map[string]*runner.Handler{}, interpreters: t.Interpreters}
	for lang := range t.Interpreters {
		if !slices.Contains(handler.Langs, lang) {
			return nil, nil, fmt.Errorf(": interpreters.%s: the languages are %s", lang, strings.Join(handler.Langs, ", "))
		}
	}
	raw, _ := tables["handlers"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(t.Handlers)) {
		table := t.Handlers[name]
		keys, _ := raw[name].(map[string]any)
		h, err := table.handler(name, dir, slices.Sorted(maps.Keys(keys)))
		if err != nil {
			return nil, nil, fmt.Errorf(": handlers.%s: %w", name, err)
		}
		file.handlers[name] = h
	}
	return file, settings, checkTypes(file.handlers)
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
				return fmt.Errorf(": handlers.%s and handlers.%s both run the type %s", other, name, typ)
			}
			of[typ] = name
		}
	}
	return nil
}

// typeError says which value was wanted in place of one of another type.
func typeError(err *toml.DecodeError) string {
	text := strings.TrimPrefix(err.Error(), "toml: ")
	wanted := map[string]string{
		"string": "a text in quotes", "[]string": "a list of texts", "int": "a whole number", "int64": "a whole number", "bool": "true or false",
		"map[string]string": "a table of texts", "main.optionsTable": "a table",
	}
	if _, typ, ok := strings.Cut(text, " of type "); ok && wanted[strings.TrimPrefix(typ, "*")] != "" {
		return "must be " + wanted[strings.TrimPrefix(typ, "*")]
	}
	return text
}

// handler returns the handler of a table, which has these keys.
func (t *handlerTable) handler(name, dir string, keys []string) (*runner.Handler, error) {
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
		path := t.SourceFile
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("source_file: %w", err)
		}
		t.Source = string(text)
	}
	o := handler.Options(t.Options)
	h := &runner.Handler{Types: t.Types, Program: t.Settings, Document: handler.Document{
		Kind: t.Kind, Lang: t.Lang, Source: t.Source, Before: t.Before, BeforeEach: t.BeforeEach, AfterEach: t.AfterEach, EID: t.EID, URL: t.URL, Options: &o,
	}}
	if t.Kind == handler.Exec {
		h.Document.Program = name
	}
	if len(h.Document.Source) > job.MaxHandlerBytes {
		return nil, fmt.Errorf("source has %d bytes; the maximum is %d", len(h.Document.Source), job.MaxHandlerBytes)
	}
	return h, h.Document.Check()
}
