package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// configuration is the contents of the configuration files of a command: the file of --config, or the layers of
// --config-dir, of which later ones have precedence.
type configuration struct {
	files []*configFile
	// forRunner means that the top level of the file has the settings and tables of work. Otherwise it has the settings
	// of serve, and sections for other commands.
	forRunner bool
}

// setting is a value in a file. value has the form that the flag accepts.
type setting struct {
	verb, flag string // verb is "" for a shared setting at the top level
	value      string
	at         string // path:line
	rank       int    // a higher one has precedence
}

// workTableNames are the tables that a file may have for work in addition to the values of flags.
var workTableNames = []string{"handlers", "interpreters", "containers", "wasi"}

// originKey is the annotation of a flag with the origin of its value. Flags of the command line do not have it.
const originKey = "origin"

func setOrigin(f *pflag.Flag, origin string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[originKey] = []string{origin}
}

// OnCommandLine reports whether a flag was given on the command line, and not by a file or variable.
func OnCommandLine(f *pflag.Flag) bool {
	return f != nil && f.Changed && len(f.Annotations[originKey]) == 0
}

// AddFlags adds the flags that select the configuration files.
func AddFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.String("config", "", "file with settings, in TOML; daybook help configuration")
	flags.String("config-dir", "", "directory with settings, in the files default.toml, $DAYBOOK_ENV.toml and local.toml")
	cobra.CheckErr(root.MarkPersistentFlagFilename("config", "toml"))
	cobra.CheckErr(root.MarkPersistentFlagDirname("config-dir"))
}

// configKey is the key of the configuration in the context of a command.
type configKey struct{}

// configurationOf returns the files that configure has read for a command.
func configurationOf(cmd *cobra.Command) *configuration {
	if c, ok := cmd.Context().Value(configKey{}).(*configuration); ok {
		return c
	}
	return &configuration{}
}

// Configure sets the flags that are not on the command line: to their variables, otherwise to the values in files. It
// checks the values in files for all commands.
func Configure(cmd *cobra.Command, all Commands) error {
	if err := fromEnvironment(cmd); err != nil {
		return err
	}
	config, err := readConfiguration(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	cmd.SetContext(context.WithValue(ctx, configKey{}, config))
	return config.apply(cmd, all)
}

// readConfiguration reads the files of --config or --config-dir. Without these flags it reads no file: the directory in
// which a command is started may belong to somebody else, and a setting may name a program (--on-lost).
func readConfiguration(cmd *cobra.Command) (*configuration, error) {
	path, dir := "", ""
	for name, to := range map[string]*string{"config": &path, "config-dir": &dir} {
		if f := cmd.Flags().Lookup(name); f != nil && len(SettingsOf(cmd)) > 0 {
			*to = f.Value.String()
		}
	}
	switch {
	case path != "" && dir != "":
		return nil, terminal.Usage(errors.New("--config and --config-dir must not both be given"))
	case path != "":
		file, err := readConfigFile(path)
		if err != nil {
			return nil, err
		}
		return &configuration{files: []*configFile{file}, forRunner: VerbOf(cmd) == "work"}, nil
	case dir != "":
		files, err := readLayers(dir)
		return &configuration{files: files}, err
	}
	return &configuration{}, nil
}

// defaultLayer is the second layer without DAYBOOK_ENV, as in miniq.
const defaultLayer = "development"

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// readLayers reads the existing files default.toml, $DAYBOOK_ENV.toml (or development.toml) and local.toml of a directory.
func readLayers(dir string) (files []*configFile, err error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, terminal.Usagef("read configuration: --config-dir: %w", err)
	} else if !info.IsDir() {
		return nil, terminal.Usagef("read configuration: --config-dir %s is not a directory; --config names a file", dir)
	}
	env := cmp.Or(os.Getenv(layerVariable), defaultLayer)
	if strings.ContainsAny(env, "/\\\x00") || strings.HasPrefix(env, ".") {
		return nil, terminal.Usagef("environment variable %s: %q is not the name of a file in --config-dir", layerVariable, env)
	}
	for _, layer := range []string{"default", env, "local"} {
		for _, extension := range []string{".yaml", ".yml", ".json"} { // as miniq's: the settings in them must not be ignored
			if path := filepath.Join(dir, layer+extension); exists(path) {
				return nil, terminal.Usagef("read configuration: %s: settings are TOML; write them to %s.toml, and remove this file", path, layer)
			}
		}
		file, err := readConfigFile(filepath.Join(dir, layer+".toml"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// apply checks all settings in the files, and sets the flags of a command that neither the command line nor a variable
// has set.
func (c *configuration) apply(cmd *cobra.Command, commands Commands) error {
	if len(c.files) == 0 {
		return nil
	}
	all := commands()
	verb := VerbOf(cmd)
	chosen := map[string]setting{}
	for layer, file := range c.files {
		settings, err := c.settings(file, all)
		if err != nil {
			return err
		}
		if err := checkValues(settings, all); err != nil {
			return err
		}
		for _, s := range settings {
			if s.verb != "" && s.verb != verb || !isSetting(verb, s.flag) || cmd.Flags().Lookup(s.flag) == nil {
				continue
			}
			s.rank = layer
			if s.verb != "" { // it is in the section of the command
				s.rank += len(c.files)
			}
			if had, ok := chosen[s.flag]; !ok || s.rank >= had.rank {
				chosen[s.flag] = s
			}
		}
	}
	if a, b := chosen["server"], chosen["context"]; a.flag != "" && b.flag != "" { // each selects the server
		switch {
		case a.rank > b.rank:
			delete(chosen, "context")
		case a.rank < b.rank:
			delete(chosen, "server")
		default:
			return terminal.Usagef("configuration %s: server is set together with context (%s); each names a server", a.at, b.at)
		}
	}
	serverGiven := cmd.Flags().Changed("server") || cmd.Flags().Changed("context")
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		flag, s := cmd.Flags().Lookup(name), chosen[name]
		if flag.Changed || serverGiven && namesServer(name) {
			continue
		}
		if err := cmd.Flags().Set(name, s.value); err != nil {
			return terminal.Usagef("configuration %s: %s: %w", s.at, name, plainly(err))
		}
		setOrigin(flag, s.at)
	}
	return nil
}

// checkValues refuses values that their flags refuse, also if another source has precedence, or they are for another
// command. all are all commands, with flags that nothing has set.
func checkValues(settings []setting, all *cobra.Command) error {
	for _, s := range settings {
		if s.verb == "" {
			continue // server, context and data may be any text
		}
		if err := CommandNamed(all, s.verb).Flags().Set(s.flag, s.value); err != nil {
			return terminal.Usagef("configuration %s: %s: %w", s.at, s.flag, plainly(err))
		}
	}
	return nil
}

// settings returns the settings in a file for all commands, in the order of their lines.
func (c *configuration) settings(file *configFile, all *cobra.Command) (list []setting, err error) {
	top := "serve"
	if c.forRunner {
		top = "work"
	}
	for _, key := range file.order(file.values) {
		value := file.values[key]
		table, isTable := value.(map[string]any)
		switch {
		case c.forRunner && slices.Contains(workTableNames, key):
			continue // the command checks them
		case c.forRunner && isTable:
			return nil, file.wrong(fmt.Errorf("[%s] is not known; the tables are [handlers.NAME], [interpreters], [containers] and [wasi]", key), key)
		case hasSection(key) && !c.forRunner && !isTable:
			return nil, file.wrong(fmt.Errorf("%s must be a section with settings of `daybook %s`", key, key), key)
		case hasSection(key) && !c.forRunner:
			for _, name := range file.order(table, key) {
				if key == "work" && slices.Contains(workTableNames, name) {
					continue
				}
				s, err := file.setting(CommandNamed(all, key), table[name], key, name)
				if err != nil {
					return nil, err
				}
				list = append(list, s)
			}
		case key == "serve" && isTable:
			return nil, file.wrong(errors.New("the settings of serve are at the top level of the file, not in a section"), key)
		default:
			if !isTable && slices.Contains(SharedFlags, key) && key != "data" {
				text, err := flagText(value)
				if err != nil {
					return nil, file.wrong(fmt.Errorf("%s: %w", key, err), key)
				}
				list = append(list, setting{flag: key, value: text, at: file.at(key)})
				continue
			}
			s, err := file.setting(CommandNamed(all, top), value, key)
			if err != nil {
				return nil, err
			}
			if slices.Contains(SharedFlags, s.flag) {
				s.verb = ""
			}
			list = append(list, s)
		}
	}
	return list, c.refuseTwice(file, list)
}

// refuseTwice refuses a setting of a runner that is given both with a hyphen and with an underscore.
func (c *configuration) refuseTwice(file *configFile, list []setting) error {
	first := map[[2]string]string{}
	for _, s := range list {
		name := [2]string{s.verb, s.flag}
		if first[name] != "" {
			return terminal.Usagef("configuration %s: %s is set twice; the other place is %s", s.at, s.flag, first[name])
		}
		first[name] = s.at
	}
	return nil
}

// order returns the keys of a table in the order of their lines.
func (f *configFile) order(table map[string]any, below ...string) []string {
	keys := slices.Sorted(maps.Keys(table))
	line := func(key string) int { return f.lines.of(append(slices.Clip(below), key)...) }
	slices.SortStableFunc(keys, func(a, b string) int { return line(a) - line(b) })
	return keys
}

// setting returns the setting of a command at these keys.
func (f *configFile) setting(cmd *cobra.Command, value any, keys ...string) (setting, error) {
	key, verb := keys[len(keys)-1], VerbOf(cmd)
	name := key
	if verb == "work" { // the file of work may have until_idle for until-idle
		name = strings.ReplaceAll(key, "_", "-")
	}
	if cmd.Flags().Lookup(name) == nil || !isSetting(verb, name) {
		return setting{}, f.wrong(fmt.Errorf("there is no setting %q%s; `daybook config %s` lists all settings", key, meant(cmd, key), verb), keys...)
	}
	text, err := flagText(value)
	if _, isTable := value.(map[string]any); isTable {
		err = errors.New("it is not a section; write the setting as name = value")
	}
	if err != nil {
		return setting{}, f.wrong(fmt.Errorf("%s: %w", key, err), keys...)
	}
	return setting{verb: verb, flag: name, value: text, at: f.at(keys...)}, nil
}

// meant returns a question that suggests a key for an unknown key of a command.
func meant(cmd *cobra.Command, key string) string {
	names := namesOf(cmd)
	if VerbOf(cmd) == "serve" {
		names = append(names, "server", "context")
		names = append(names, Sections()...)
	}
	if question := didYouMean(key, names); question != "" {
		return question
	}
	if VerbOf(cmd) == "serve" {
		for _, verb := range Sections() {
			if other := CommandNamed(cmd.Root(), verb); other != nil && slices.Contains(namesOf(other), key) {
				return fmt.Sprintf(" of serve (%s has one; its settings are in the section [%s])", verb, verb)
			}
		}
	}
	return ""
}

// WorkTables returns the tables of work in the configuration files of a command, merged. Relative paths in them are
// relative to dir. files are the paths of the files that have such tables.
func WorkTables(cmd *cobra.Command) (tables map[string]any, dir string, files []string) {
	config := configurationOf(cmd)
	tables = map[string]any{}
	for _, file := range config.files {
		values := file.values
		if !config.forRunner {
			values, _ = file.values["work"].(map[string]any)
		}
		own := map[string]any{}
		for _, name := range workTableNames {
			if value, ok := values[name]; ok {
				own[name] = value
			}
		}
		if len(own) > 0 { // all files are in one directory
			dir, files = filepath.Dir(file.path), append(files, file.path)
		}
		mergeTables(tables, own)
	}
	return tables, dir, files
}

// mergeTables puts the values of src into dst: it merges tables, and replaces all other values.
func mergeTables(dst, src map[string]any) {
	for key, value := range src {
		from, isTable := value.(map[string]any)
		to, wasTable := dst[key].(map[string]any)
		if isTable && wasTable {
			mergeTables(to, from)
			continue
		}
		if isTable { // dst must not share it
			to = map[string]any{}
			mergeTables(to, from)
			value = to
		}
		dst[key] = value
	}
}
