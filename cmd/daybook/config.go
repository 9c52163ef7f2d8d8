package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/spf13/pflag"
)

// maxConfigBytes is a thousand times the size of all settings. A larger file is not a configuration.
const maxConfigBytes = 1 << 20

// notInConfig lists the flags that a configuration file cannot set.
var notInConfig = []string{"config", "print-config", "help"}

// setting is a key of a configuration file. value is its value in the form that the flag accepts.
type setting struct {
	key, value string
	line       int
}

// readConfig returns the settings in the configuration file at path.
func readConfig(path string) ([]setting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	settings, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("configuration %s%w", path, err)
	}
	return settings, nil
}

// parseConfig parses settings in TOML: `name = value`, where a value is a string, a number, true or false, or a list of
// strings. Errors begin with ":line: " or ": ".
func parseConfig(text []byte) ([]setting, error) {
	if len(text) > maxConfigBytes {
		return nil, fmt.Errorf(": larger than %d bytes", maxConfigBytes)
	}
	values := map[string]any{}
	if err := toml.Unmarshal(text, &values); err != nil {
		return nil, atLine(err)
	}
	return settingsOf(text, values)
}

// atLine puts the line of an error of the TOML library in front of its text.
func atLine(err error) error {
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := at.Position()
		return fmt.Errorf(":%d: %s", line, strings.TrimPrefix(at.Error(), "toml: "))
	}
	return fmt.Errorf(": %w", err)
}

// settingsOf returns the settings for the values of a text.
func settingsOf(text []byte, values map[string]any) ([]setting, error) {
	lines, err := keyLines(text)
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	var settings []setting
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value, err := flagText(values[key])
		if err != nil {
			return nil, fmt.Errorf(":%d: %s: %w", lines[key], key, err)
		}
		settings = append(settings, setting{key, value, lines[key]})
	}
	slices.SortStableFunc(settings, func(a, b setting) int { return cmp.Compare(a.line, b.line) })
	return settings, nil
}

// flagText returns a TOML value in the form that a flag accepts.
func flagText(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case bool:
		return strconv.FormatBool(v), nil
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			text, ok := item.(string)
			if !ok || text == "" {
				return "", fmt.Errorf("a list may hold strings only, not %v", item)
			}
			items[i] = text
		}
		if len(items) == 0 {
			return "", nil
		}
		var line strings.Builder
		w := csv.NewWriter(&line) // the form in which the flag reads lists
		if err := w.Write(items); err != nil {
			return "", err
		}
		w.Flush()
		return strings.TrimSuffix(line.String(), "\n"), nil
	case map[string]any:
		return "", errors.New("a configuration has no sections; write each setting as name = value")
	}
	return "", fmt.Errorf("%v is neither a string in quotes, a whole number, true or false, nor a list of strings", value)
}

// keyLines returns the line number of each key of the first level.
func keyLines(text []byte) (map[string]int, error) {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		if key := p.Expression().Key(); key.Next() {
			if name := string(key.Node().Data); lines[name] == 0 {
				lines[name] = p.Shape(key.Node().Raw).Start.Line
			}
		}
	}
	return lines, p.Error()
}

// fromConfig sets flags to the values of a configuration file, except those that the command line or the environment
// has set. It records the origin of each value.
func fromConfig(flags *pflag.FlagSet, path string) error {
	if path == "" {
		return nil
	}
	settings, err := readConfig(path)
	if err != nil {
		return usageError{err}
	}
	for _, s := range settings {
		flag := flags.Lookup(s.key)
		if flag == nil || slices.Contains(notInConfig, s.key) {
			meant := ""
			if name := strings.ReplaceAll(strings.ToLower(s.key), "_", "-"); name != s.key && flags.Lookup(name) != nil {
				meant = fmt.Sprintf(" (did you mean %s?)", name)
			}
			return usageError{fmt.Errorf("configuration %s:%d: there is no setting %q%s; `daybook serve --help` lists all settings", path, s.line, s.key, meant)}
		}
		// A wrong value is an error even if another source overrides it.
		was, changed := flag.Value.String(), flag.Changed
		if list, ok := flag.Value.(pflag.SliceValue); ok && changed {
			kept := list.GetSlice()
			err = flags.Set(s.key, s.value)
			err = errors.Join(err, list.Replace(kept))
		} else if err = flags.Set(s.key, s.value); err == nil && changed {
			err = flags.Set(s.key, was)
		}
		if err != nil {
			return usageError{fmt.Errorf("configuration %s:%d: %s: %w", path, s.line, s.key, plainly(err))}
		}
		if !changed {
			flag.Annotations = map[string][]string{originKey: {path}}
		}
	}
	return nil
}

// plainly replaces an error of the flag library that contains the names of Go functions.
func plainly(err error) error {
	var wrong *strconv.NumError
	if !errors.As(err, &wrong) {
		return err
	}
	kind := "a whole number"
	if wrong.Func == "ParseBool" {
		kind = "true or false"
	}
	return fmt.Errorf("%q is not %s", wrong.Num, kind)
}

// originKey is the annotation of a flag that says where its value comes from. Flags of the command line have none.
const originKey = "origin"

// printConfig writes all settings with their present values as a configuration file, each with its origin.
func printConfig(out io.Writer, flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notInConfig, f.Name) || err != nil {
			return
		}
		origin := "default"
		if f.Changed {
			origin = "command line"
		}
		if from := f.Annotations[originKey]; len(from) > 0 {
			origin = from[0]
		}
		var value any = f.Value.String()
		switch f.Value.Type() {
		case "int":
			value, err = strconv.ParseInt(f.Value.String(), 10, 64)
		case "bool":
			value, err = strconv.ParseBool(f.Value.String())
		case "stringSlice":
			value = f.Value.(pflag.SliceValue).GetSlice()
		}
		var line []byte
		if err == nil {
			line, err = toml.Marshal(map[string]any{f.Name: value})
		}
		if err == nil {
			_, err = fmt.Fprintf(out, "%s # %s\n", strings.TrimSpace(string(line)), origin)
		}
	})
	return err
}
