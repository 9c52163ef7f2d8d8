package config

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// maxConfigBytes is a thousand times the size of all settings. A larger file is not a configuration.
const maxConfigBytes = 1 << 20

// maxConfigKeys bounds the time that the TOML library takes. It grows with the square of the number of keys, and is
// half a second for this many.
const maxConfigKeys = 8_000

// configFile is the contents of a configuration file. A value is a string, int64, float64, bool, []any, map[string]any or a
// time of TOML.
type configFile struct {
	path   string
	values map[string]any
	lines  keyLines
}

// keyLines are the line numbers of keys. Each key is the linesKey of its path from the top level.
type keyLines map[string]int

func linesKey(keys []string) string { return strings.Join(keys, "\x00") }

// add records the line of a key. The key of a table may occur many times; the first line counts.
func (l keyLines) add(line int, keys []string) {
	if key := linesKey(keys); l[key] == 0 {
		l[key] = line
	}
}

// of returns the line of a key, or of the table that it is in.
func (l keyLines) of(keys ...string) int {
	for ; len(keys) > 0; keys = keys[:len(keys)-1] {
		if line := l[linesKey(keys)]; line > 0 {
			return line
		}
	}
	return 1
}

// at returns the place of a key as path:line.
func (f *configFile) at(keys ...string) string {
	return fmt.Sprintf("%s:%d", f.path, f.lines.of(keys...))
}

// wrong returns an error of a key.
func (f *configFile) wrong(err error, keys ...string) error {
	return terminal.Usagef("configuration %s: %w", f.at(keys...), err)
}

// readConfigFile reads and parses the file at path. If the file does not exist, the error is fs.ErrNotExist.
func readConfigFile(path string) (*configFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, terminal.Usagef("read configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, terminal.Usagef("read configuration: %w", err)
	}
	values, lines, err := parseConfig(text)
	if err != nil {
		return nil, terminal.Usagef("configuration %s%w", path, err)
	}
	return &configFile{path: path, values: values, lines: lines}, nil
}

// parseConfig parses TOML. Errors begin with ":line: " or ": ".
func parseConfig(text []byte) (map[string]any, keyLines, error) {
	if len(text) > maxConfigBytes {
		return nil, nil, fmt.Errorf(": larger than %d bytes", maxConfigBytes)
	}
	for rest, read := text, 0; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			return nil, nil, fmt.Errorf(":%d: the text is not UTF-8", 1+bytes.Count(text[:read], []byte("\n")))
		}
		rest, read = rest[size:], read+size
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // editors of Windows write this mark
	if tooManyKeys(text) {
		return nil, nil, fmt.Errorf(": more than %d keys", maxConfigKeys)
	}
	values := map[string]any{}
	if err := toml.Unmarshal(text, &values); err != nil {
		return nil, nil, atLine(err)
	}
	lines, line, read := keyLines{}, 1, 0
	var p unstable.Parser
	p.Reset(text)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		keys := append([]string(nil), table...)
		if e.Kind != unstable.KeyValue {
			keys = nil
		}
		for key := e.Key(); key.Next(); {
			at := int(key.Node().Raw.Offset)
			line += bytes.Count(text[read:max(at, read)], []byte("\n"))
			read = max(at, read)
			keys = append(keys, string(key.Node().Data))
			lines.add(line, keys)
		}
		if e.Kind != unstable.KeyValue {
			table = keys
		}
	}
	if err := p.Error(); err != nil {
		return nil, nil, fmt.Errorf(": %w", err)
	}
	return values, lines, nil
}

// tooManyKeys reports whether a text has more than maxConfigKeys keys before the first error.
func tooManyKeys(text []byte) bool {
	var p unstable.Parser
	p.Reset(text)
	keys := 0
	for keys <= maxConfigKeys && p.NextExpression() {
		keys += keysIn(p.Expression())
	}
	return keys > maxConfigKeys
}

// keysIn returns the number of keys in an expression, including the keys of tables in its value.
func keysIn(node *unstable.Node) (keys int) {
	if node.Kind == unstable.Key {
		keys++ // a.b.c = 1 has three
	}
	for children := node.Children(); children.Next(); {
		keys += keysIn(children.Node())
	}
	return keys
}

// atLine puts the line of an error of the TOML library in front of its text.
func atLine(err error) error {
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := at.Position()
		return fmt.Errorf(":%d: %s", line, strings.TrimPrefix(at.Error(), "toml: "))
	}
	return fmt.Errorf(": %w", err)
}

// flagText returns a value of a file in the form that a flag accepts.
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
	}
	return "", fmt.Errorf("%v is neither a string in quotes, a whole number, true or false, nor a list of strings", value)
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
