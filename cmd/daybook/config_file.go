package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"go.yaml.in/yaml/v3"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// maxConfigBytes is a thousand times the size of all settings. A larger file is not a configuration.
const maxConfigBytes = 1 << 20

// maxConfigKeys bounds the time that the TOML library takes. It grows with the square of the number of keys, and is
// half a second for this many.
const maxConfigKeys = 8_000

// maxConfigDepth is how deep values of YAML may be nested. The table of a handler's options is three deep.
const maxConfigDepth = 16

// configFile is the contents of a configuration file. A value is a string, int64, float64, bool, []any or
// map[string]any; in TOML it may also be a time.
type configFile struct {
	path   string
	values map[string]any
	lines  keyLines
}

// keyLines are the line numbers of keys. Each key is the linesKey of its path from the top level.
type keyLines map[string]int

func linesKey(keys []string) string { return strings.Join(keys, "\x00") }

// add records the line of a key. In TOML the key of a table may occur many times; the first line counts.
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

// isYAML reports whether the name of a file has an extension of YAML. All other files are TOML.
func isYAML(path string) bool {
	extension := strings.ToLower(filepath.Ext(path))
	return extension == ".yaml" || extension == ".yml"
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
	values, lines, err := parseConfig(text, isYAML(path))
	if err != nil {
		return nil, terminal.Usagef("configuration %s%w", path, err)
	}
	return &configFile{path: path, values: values, lines: lines}, nil
}

// parseConfig parses TOML or YAML. Errors begin with ":line: " or ": ".
func parseConfig(text []byte, isYAML bool) (map[string]any, keyLines, error) {
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
	if isYAML {
		return parseYAML(text)
	}
	return parseTOML(text)
}

func parseTOML(text []byte) (map[string]any, keyLines, error) {
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

// parseYAML parses one document of YAML. It refuses features that YAML has beyond TOML: anchors, aliases, merge keys,
// tags, and numbers that programs read in different ways.
func parseYAML(text []byte) (map[string]any, keyLines, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return map[string]any{}, keyLines{}, nil
	} else if err != nil {
		return nil, nil, atYAMLLine(err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, nil, fmt.Errorf(":%d: a second document begins; a configuration is one document", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, nil, atYAMLLine(err)
	}
	if len(document.Content) == 0 {
		return map[string]any{}, keyLines{}, nil
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" && root.Anchor == "" {
		return map[string]any{}, keyLines{}, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf(":%d: a configuration is written as name: value", root.Line)
	}
	lines := keyLines{}
	value, err := yamlValue(root, nil, lines)
	if err != nil {
		return nil, nil, err
	}
	return value.(map[string]any), lines, nil
}

var yamlLine = regexp.MustCompile(`^line ([0-9]+): `)

// atYAMLLine puts the line of an error of the YAML library in front of its text.
func atYAMLLine(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		return fmt.Errorf(":%s: %s", m[1], text[len(m[0]):])
	}
	return fmt.Errorf(": %s", text)
}

// yamlValue returns the value of the node at these keys, and adds the lines of the keys below it.
func yamlValue(node *yaml.Node, keys []string, lines keyLines) (any, error) {
	wrong := func(format string, args ...any) (any, error) {
		return nil, fmt.Errorf(":%d: %s", node.Line, fmt.Sprintf(format, args...))
	}
	switch {
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		return wrong("anchors and aliases are not allowed; write the value itself")
	case node.Style&yaml.TaggedStyle != 0:
		return wrong("tags like %s are not allowed", node.Tag)
	case len(keys) > maxConfigDepth:
		return wrong("values are nested too deep")
	case node.Kind == yaml.MappingNode:
		return yamlTable(node, keys, lines)
	case node.Kind == yaml.SequenceNode:
		list := []any{}
		for _, item := range node.Content {
			value, err := yamlValue(item, append(keys, ""), lines)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	}
	return yamlScalar(node)
}

func yamlTable(node *yaml.Node, keys []string, lines keyLines) (any, error) {
	table := map[string]any{}
	for i := 0; i < len(node.Content); i += 2 {
		key := node.Content[i]
		if tag := key.ShortTag(); key.Kind != yaml.ScalarNode || key.Anchor != "" || tag != "!!str" && tag != "!!int" || key.Style&yaml.TaggedStyle != 0 {
			return nil, fmt.Errorf(":%d: %q is not allowed as a name; names are plain texts", key.Line, key.Value)
		}
		if _, twice := table[key.Value]; twice {
			return nil, fmt.Errorf(":%d: %s is set twice", key.Line, key.Value)
		}
		below := append(append([]string(nil), keys...), key.Value)
		lines.add(key.Line, below)
		value, err := yamlValue(node.Content[i+1], below, lines)
		if err != nil {
			return nil, err
		}
		table[key.Value] = value
	}
	return table, nil
}

var (
	decimal  = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	fraction = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)\.[0-9]+$`)
)

// yamlScalar returns a string, number or truth value. YAML 1.1 and 1.2 read on, yes, 010 and 1_000 in different ways:
// yamlScalar reads on and yes as strings, and refuses such numbers.
func yamlScalar(node *yaml.Node) (any, error) {
	text := node.Value
	switch tag := node.ShortTag(); {
	case tag == "!!str":
		return text, nil
	case tag == "!!bool":
		return strings.EqualFold(text, "true"), nil
	case tag == "!!int" && decimal.MatchString(text):
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	case tag == "!!float" && fraction.MatchString(text):
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			return x, nil
		}
	case tag == "!!null":
		return nil, fmt.Errorf(":%d: a value is missing; write '' for an empty text", node.Line)
	}
	return nil, fmt.Errorf(":%d: %s is not a number in decimal notation; if it is a text, put it in quotes", node.Line, text)
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
