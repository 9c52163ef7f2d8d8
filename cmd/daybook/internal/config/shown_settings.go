package config

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// Configured returns a command whose flags are set as if it had been started with these flags, and with the --config or
// --config-dir of cmd.
func Configured(cmd *cobra.Command, all Commands, verb string, flags []string) (*cobra.Command, error) {
	if verb == "" {
		verb = "serve"
	}
	target := CommandNamed(all(), verb)
	if target == nil {
		return nil, terminal.Usagef("there is no command %q", verb)
	}
	if len(SettingsOf(target)) == 0 {
		return nil, terminal.Usagef("`daybook %s` has no settings", verb)
	}
	if err := target.ParseFlags(flags); err != nil {
		return nil, terminal.Usage(err)
	}
	if rest := target.Flags().Args(); len(rest) > 0 {
		return nil, terminal.Usagef("after --, only flags of `daybook %s` may be given, not %q", verb, rest[0])
	}
	for _, name := range FileFlags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			if err := target.Flags().Set(name, f.Value.String()); err != nil {
				return nil, terminal.Usage(err)
			}
		}
	}
	target.SetContext(cmd.Context())
	if err := Configure(target, all); err != nil {
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

// ShownSetting is a setting as `daybook config` prints it.
type ShownSetting struct {
	Name     string `json:"name"`
	Value    any    `json:"value"`
	Origin   string `json:"origin"` // "default", "command line", the name of a variable, path:line, or a context
	Variable string `json:"variable"`
	Redacted bool   `json:"redacted,omitempty"` // Value lacks a password, or the key in DAYBOOK_KEY

	Text     string `json:"-"` // the value for a table
	implicit bool   // a default, or a server that the setting context selects: a file with the same settings lacks it
}

// Shown returns the settings of a command, without passwords. The server is the one that the command would use.
func Shown(cmd *cobra.Command) (list []ShownSetting, err error) {
	var of selected
	if f := cmd.Flags().Lookup("server"); f != nil {
		if server, ok := f.Value.(*ServerAddress); ok {
			if of, err = selectedBy(server); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range SettingsOf(cmd) {
		s := ShownSetting{Name: f.Name, Origin: "default", Variable: Variable(VerbOf(cmd), f.Name)}
		if f.Changed {
			s.Origin = "command line"
		}
		if from := f.Annotations[originKey]; len(from) > 0 {
			s.Origin = from[0]
		}
		s.implicit = s.Origin == "default" || !hasSection(VerbOf(cmd)) && VerbOf(cmd) != "serve" && slices.Contains(ClientPair, f.Name) // at the top level it would be serve's
		s.Text, s.Value = f.Value.String(), flagValue(f)
		of.mark(f, &s)
		hidden := withoutPassword(s.Text)
		if f.Name == "on-lost" {
			hidden = withoutArguments(s.Text)
		}
		if hidden != s.Text {
			s.Text, s.Value, s.Redacted = hidden, hidden, true
		}
		if _, ok := f.Value.(*ServerAddress); ok { // its text is already without the password
			s.Redacted = strings.Contains(s.Text, "…@")
		}
		list = append(list, s)
	}
	return list, nil
}

// selected is what selects the server of a command and the files that belong to it.
type selected struct {
	server  *ServerAddress // nil: the command has none
	context string         // the name of the context; "": none
	missing bool           // the context does not exist, which is no error: a configuration file may be for another machine
}

// selectedBy looks up the server, and sets the flags that the context sets.
func selectedBy(server *ServerAddress) (of selected, err error) {
	of.server = server
	of.context, err = server.resolve()
	if errors.Is(err, errNoContext) {
		of.missing, err = true, nil
		server.given = true // set to an empty text, so that it does not mean the default
	}
	return of, err
}

// ofContexts are the settings that a context can have besides the server.
var ofContexts = []string{"key-file", "encrypt-key-file", "tls-ca", "tls-cert", "tls-key"}

// mark sets the origin of a setting that the context has, and hides the key of the variable.
func (of *selected) mark(f *pflag.Flag, s *ShownSetting) {
	_, isServer := f.Value.(*ServerAddress)
	if isServer || slices.Contains(ofContexts, f.Name) && !f.Changed && s.Text != "" {
		if of.context != "" {
			s.Origin, s.implicit = fmt.Sprintf("context %q", of.context), of.server.context != ""
		}
		if of.missing {
			s.Origin, s.implicit = s.Origin+", which does not exist", true
		}
	}
	if f.Name == "key-file" && of.server != nil && of.server.keyInVariable() {
		s.Origin, s.Text, s.Value, s.Redacted = keyVariable, "", "", true
	}
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

// PrintTOML prints the settings of a command as a configuration file, each with its origin.
func PrintTOML(out io.Writer, cmd *cobra.Command) error {
	settings, err := Shown(cmd)
	if err != nil {
		return err
	}
	if verb := VerbOf(cmd); hasSection(verb) && verb != "work" {
		if _, err := fmt.Fprintf(out, "[%s]\n", verb); err != nil {
			return err
		}
	}
	if VerbOf(cmd) == "work" {
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
