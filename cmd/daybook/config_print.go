package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// configFlags adds the flags that select the configuration files.
func configFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.String("config", "", "file with settings, in TOML; daybook help configuration")
	flags.String("config-dir", "", "directory with settings, in the files default.toml, $DAYBOOK_ENV.toml and local.toml")
	cobra.CheckErr(root.MarkPersistentFlagFilename("config", "toml"))
	cobra.CheckErr(root.MarkPersistentFlagDirname("config-dir"))
}

func newConfig() *cobra.Command {
	var asJSON, asTOML bool
	cmd := &cobra.Command{
		Use:   "config [VERB] [-- FLAGS]",
		Short: "Print settings and where they come from",
		Long: `Print each setting of a command (serve, if none is given), its value, and where the value comes from: default, a line
of a file, a variable, the command line, or for the server a context. Flags of the command are given after --.

With --toml it prints a configuration file that has the same settings. Defaults are comments in it. So are values that
contain a password, which is never printed, --on-lost, whose arguments may be secrets, and the server if the setting
context names it. The handlers of work and its other tables are not printed, because they may contain secrets.`,
		Example: `  daybook config
  daybook config work --config work.toml
  daybook config serve --config-dir config --toml -- --listen 127.0.0.1:0`,
		ValidArgsFunction: once(func(*cobra.Command, string) []string { return append(sections(), "serve") }),
		RunE: func(cmd *cobra.Command, args []string) error {
			words, flags := args, []string(nil)
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				words, flags = args[:dash], args[dash:]
			}
			target, err := configured(cmd, strings.Join(words, " "), flags)
			if err != nil {
				return err
			}
			if asTOML {
				return printTOML(cmd.OutOrStdout(), target)
			}
			settings, err := shownSettings(target)
			if err != nil {
				return err
			}
			if asJSON {
				return printLines(cmd.OutOrStdout(), settings)
			}
			return terminal.Table(cmd.OutOrStdout(), func(row func(...any)) {
				row("SETTING", "VALUE", "FROM")
				for _, s := range settings {
					row(s.Name, s.text, s.Origin)
				}
			})
		},
	}
	linesFlag(cmd, &asJSON, "setting")
	cmd.Flags().BoolVar(&asTOML, "toml", false, "print a configuration file")
	cmd.MarkFlagsMutuallyExclusive("json", "toml")
	return cmd
}

// configured returns a command whose flags are set as if it had been started with these flags, and with the --config or
// --config-dir of cmd.
func configured(cmd *cobra.Command, verb string, flags []string) (*cobra.Command, error) {
	if verb == "" {
		verb = "serve"
	}
	target := commandNamed(allCommands(), verb)
	if target == nil {
		return nil, terminal.Usagef("there is no command %q", verb)
	}
	if len(settingsOf(target)) == 0 {
		return nil, terminal.Usagef("`daybook %s` has no settings", verb)
	}
	if err := target.ParseFlags(flags); err != nil {
		return nil, terminal.Usage(err)
	}
	if rest := target.Flags().Args(); len(rest) > 0 {
		return nil, terminal.Usagef("after --, only flags of `daybook %s` may be given, not %q", verb, rest[0])
	}
	for _, name := range fileFlags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			if err := target.Flags().Set(name, f.Value.String()); err != nil {
				return nil, terminal.Usage(err)
			}
		}
	}
	target.SetContext(cmd.Context())
	if err := configure(target); err != nil {
		if _, ok := err.(terminal.UsageError); !ok {
			err = terminal.Usage(err)
		}
		return nil, err
	}
	if target.PreRunE != nil {
		return target, target.PreRunE(target, nil)
	}
	return target, nil
}

// shownSetting is a setting as `daybook config` prints it.
type shownSetting struct {
	Name     string `json:"name"`
	Value    any    `json:"value"`
	Origin   string `json:"origin"` // "default", "command line", the name of a variable, path:line, or a context
	Variable string `json:"variable"`
	Redacted bool   `json:"redacted,omitempty"` // Value lacks a password

	text     string // the value for a table
	implicit bool   // a default, or a server that the setting context selects: a file with the same settings lacks it
}

// shownSettings returns the settings of a command, without passwords. The server is the one that the command would use.
func shownSettings(cmd *cobra.Command) (list []shownSetting, err error) {
	for _, f := range settingsOf(cmd) {
		s := shownSetting{Name: f.Name, Origin: "default", Variable: variable(verbOf(cmd), f.Name)}
		if f.Changed {
			s.Origin = "command line"
		}
		if from := f.Annotations[originKey]; len(from) > 0 {
			s.Origin = from[0]
		}
		s.implicit = s.Origin == "default"
		if server, ok := f.Value.(*serverAddress); ok {
			if err := s.ofContext(server); err != nil {
				return nil, err
			}
		}
		s.text, s.Value = f.Value.String(), flagValue(f)
		hidden := withoutPassword(s.text)
		if f.Name == "on-lost" {
			hidden = withoutArguments(s.text)
		}
		if hidden != s.text {
			s.text, s.Value, s.Redacted = hidden, hidden, true
		}
		if _, ok := f.Value.(*serverAddress); ok { // its text is already without the password
			s.Redacted = strings.Contains(s.text, "…@")
		}
		list = append(list, s)
	}
	return list, nil
}

// ofContext looks up the server if it was not given as an address. A context that does not exist is no error here,
// since a configuration file may be for another machine.
func (s *shownSetting) ofContext(server *serverAddress) error {
	name, err := server.resolve()
	if name != "" {
		s.Origin, s.implicit = fmt.Sprintf("context %q", name), server.context != ""
	}
	if errors.Is(err, errNoContext) {
		server.given = true // set to an empty text, so that it does not mean the default
		s.Origin, s.implicit = s.Origin+", which does not exist", true
		return nil
	}
	return err
}

// flagValue returns the value of a flag in the type that it has in a file.
func flagValue(f *pflag.Flag) any {
	text := f.Value.String()
	switch f.Value.Type() {
	case "int":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case "bool":
		return text == "true"
	case "stringSlice":
		return f.Value.(pflag.SliceValue).GetSlice()
	case "stringToString":
		return pairs(f)
	}
	return text
}

// userInfo is the user and password of a URL.
var userInfo = regexp.MustCompile(`://[^\s"']*@`)

// withoutPassword replaces users and passwords of the URLs in a text.
func withoutPassword(text string) string { return userInfo.ReplaceAllString(text, "://…@") }

// withoutArguments returns the program of a command, or the host of a URL. The rest may be a secret, such as a token.
func withoutArguments(text string) string {
	shown, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if scheme, place, ok := strings.Cut(shown, "://"); ok {
		host, path, _ := strings.Cut(place[strings.LastIndex(place, "@")+1:], "/")
		host, query, _ := strings.Cut(host, "?")
		shown, rest = scheme+"://"+host, path+query+rest
		if strings.Contains(place, "@") {
			rest += "@"
		}
	}
	if rest != "" {
		shown += " …"
	}
	return shown
}

// printTOML prints the settings of a command as a configuration file, each with its origin.
func printTOML(out io.Writer, cmd *cobra.Command) error {
	settings, err := shownSettings(cmd)
	if err != nil {
		return err
	}
	if verb := verbOf(cmd); hasSection(verb) && verb != "work" {
		if _, err := fmt.Fprintf(out, "[%s]\n", verb); err != nil {
			return err
		}
	}
	if verbOf(cmd) == "work" {
		if _, err := fmt.Fprintf(out, "# The tables [%s] are not printed, because they may contain passwords.\n", strings.Join(workTableNames, "], [")); err != nil {
			return err
		}
	}
	for _, s := range settings {
		line, err := toml.Marshal(map[string]any{s.Name: s.Value})
		if err != nil {
			return err
		}
		comment := ""
		if s.implicit || s.Redacted {
			comment = "# "
		}
		if _, err := fmt.Fprintf(out, "%s%s # %s\n", comment, strings.TrimSpace(string(line)), strings.ReplaceAll(s.Origin, "\n", " ")); err != nil {
			return err
		}
	}
	return nil
}
