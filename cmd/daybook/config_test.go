package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/cmd/daybook/internal/work"
	"github.com/daybookq/daybook/internal/testkit"
)

// writeFile writes a file into a directory and returns its path.
func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// servedWith returns the settings of serve with this configuration file and these flags, as a file.
func servedWith(t *testing.T, text string, args ...string) (out string, err error) {
	t.Helper()
	path := writeFile(t, t.TempDir(), "daybook.toml", text)
	root := newRoot()
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetArgs(append([]string{"config", "serve", "--toml", "--config", path, "--"}, args...))
	if err = root.Execute(); err != nil {
		err = renamed{err, strings.ReplaceAll(err.Error(), path, "FILE")}
	}
	return strings.ReplaceAll(b.String(), path, "FILE"), err
}

// renamed is an error with another text.
type renamed struct {
	error
	text string
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.error }

// TestConfig: a flag has precedence over its variable, and the variable over the file. daybook config
// prints all settings, and its output is a valid file.
func TestConfig(t *testing.T) {
	t.Setenv("DAYBOOK_RETENTION", "2d")
	t.Setenv("DAYBOOK_LISTEN", "127.0.0.1:2")
	file := "listen = '127.0.0.1:1' # both others have it\nretention = \"1d\"\nmax-attempts = 7\nallow-host = [\"a.example\", \"b.example\"]\nallow-clock-ahead = true\njournal-retain = \"10G\"\n"
	out := testkit.Must(servedWith(t, file, "--listen", "127.0.0.1:3"))(t)
	for _, want := range []string{
		"\nlisten = '127.0.0.1:3' # command line", "\nretention = '2d' # DAYBOOK_RETENTION", "\nmax-attempts = 7 # FILE:3",
		"allow-host = ['a.example', 'b.example'] # FILE:4", "allow-clock-ahead = true # FILE:5", "\n# log-level = 'info' # default", "\njournal-retain = '10737418240' # FILE:6",
	} {
		testkit.Contains(t, out, want+"\n")
	}
	again, err := servedWith(t, out)
	testkit.NoError(t, err, "what was printed is no file")
	var first, second map[string]any
	testkit.NoError(t, toml.Unmarshal([]byte(out), &first))
	testkit.NoError(t, toml.Unmarshal([]byte(again), &second))
	first["listen"] = "127.0.0.1:2" // from the environment, which has precedence over the file
	testkit.Equal(t, fmt.Sprint(first), fmt.Sprint(second), "printed and read again")
}

func TestConfigRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"unknown key":       {"max-attempts = 1\nlisten_on = 'x'\n", `FILE:2: there is no setting "listen_on"`},
		"underscores":       {"max_attempts = 1\n", `FILE:1: there is no setting "max_attempts" (did you mean max-attempts?)`},
		"misspelt":          {"\nlog-lvel = 'info'\n", `FILE:2: there is no setting "log-lvel" (did you mean log-level?)`},
		"of another verb":   {"concurrency = 3\n", `there is no setting "concurrency" of serve (work has one; its settings are in the section [work])`},
		"no number":         {"max-attempts = 'five'\n", `FILE:1: max-attempts: "five" is not a whole number`},
		"neither":           {"insecure = 'yes'\n", `insecure: "yes" is not true or false`},
		"itself":            {"config = 'x'\n", `there is no setting "config"`},
		"the directory":     {"config-dir = 'x'\n", `there is no setting "config-dir"`},
		"of one call":       {"help = true\n", `there is no setting "help"`},
		"twice":             {"max-attempts = 1\nmax-attempts = 2\n", "FILE:2: "},
		"no TOML":           {"listen = 'a'\nmax-attempts: 2\n", "FILE:2: "},
		"wrong type":        {"\nmax-attempts = 1.5\n", "FILE:2: max-attempts: 1.5 is neither"},
		"wrong value":       {"max-attempts = 'many'\n", "max-attempts: "},
		"overridden, wrong": {"drain = 'soon'\n", "FILE:1: drain: "},
		"section":           {"[listen]\nhost = 'a'\n", "FILE:1: listen: it is not a section"},
		"unknown section":   {"\n[wrok]\nconcurrency = 1\n", `FILE:2: there is no setting "wrok" (did you mean work?)`},
		"section serve":     {"[serve]\nlisten = 'a'\n", "FILE:1: the settings of serve are at the top level"},
		"no section":        {"work = 3\n", "FILE:1: work must be a section"},
		"key in section":    {"[work]\n\nconcurency = 3\n", `FILE:3: there is no setting "concurency" (did you mean concurrency?)`},
		"value in section":  {"[work]\n\nconcurrency = 'x'\n", `FILE:3: concurrency: "x" is not a whole number`},
		"dotted":            {"\nwork.drain = 'soon'\n", `FILE:2: drain: `},
		"selector":          {"[cancel]\nyes = true\n", `FILE:1: there is no setting "cancel"`},
		"of one add":        {"[add]\nkey = 'x'\n", `FILE:2: there is no setting "key"`},
		"both servers":      {"[work]\nserver = 'a'\ncontext = 'b'\n", ""},
		"list of numbers":   {"allow-host = [1, 2]\n", "FILE:1: allow-host: a list may hold strings only"},
		"a date":            {"retention = 2026-01-01\n", "FILE:1: retention: "},
		"not UTF-8":         {"listen = 'x'\nmdns = '\xff'\n", "FILE:2: the text is not UTF-8"},
		"too large":         {strings.Repeat("#", 1<<20+1), "FILE: larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := servedWith(t, tt.file, "--drain", "1s")
			if tt.want == "" {
				testkit.Check(t, err, "refused, although it is for another command")
				return
			}
			testkit.Failed(t, err)
			testkit.Contains(t, err.Error(), tt.want)
			testkit.Equal(t, exitCode(err), terminal.ExitUsage)
		})
	}
}

// TestEmptyFiles: files without settings are fine, also with the mark of UTF-8.
func TestEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "\ufeff", "\ufeff# nothing\n"} {
		_, err := servedWith(t, text)
		testkit.Check(t, err, text)
	}
	for _, text := range []string{"\ufeffmdns = 'off'", "mdns = 'off'\r\n", "\ufeff\r\nmdns = 'off'\r\n"} {
		out, err := servedWith(t, text)
		testkit.Holds(t, err == nil && strings.Contains(out, "\nmdns = 'off' # FILE:"), text, err, out)
	}
}

// TestUnreadableConfig: the file of --config must exist and be readable.
func TestUnreadableConfig(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "loop.toml")
	testkit.NoError(t, os.Symlink(broken, broken))
	unreadable := writeFile(t, dir, "unreadable/local.toml", "x")
	testkit.NoError(t, os.Chmod(unreadable, 0))
	empty := filepath.Join(dir, "empty")
	testkit.NoError(t, os.Mkdir(empty, 0o700))
	old := filepath.Dir(writeFile(t, dir, "old/local.yaml", "listen: 127.0.0.1:1"))
	layerDir := filepath.Join(dir, "layers")
	testkit.NoError(t, os.MkdirAll(filepath.Join(layerDir, "local.toml"), 0o700))
	for _, tt := range [][2]string{
		{"--config " + filepath.Join(dir, "none"), "no such file"},
		{"--config " + dir, "is a directory"},
		{"--config " + broken, "symbolic links"},
		{"--config-dir " + filepath.Join(dir, "none"), "no such file"},
		{"--config-dir " + unreadable, "--config names a file"},
		{"--config-dir " + layerDir, "is a directory"},
		{"--config-dir " + old, "local.yaml: settings are TOML"},
		{"--config-dir " + empty, ""},
		{"--config-dir " + empty + " --config " + unreadable, "must not both be given"},
	} {
		r := execute(t, "", append([]string{"config", "serve"}, strings.Fields(tt[0])...)...)
		testkit.Holds(t, (tt[1] != "" || r.code == terminal.ExitOK) &&
			(tt[1] == "" || r.code == terminal.ExitUsage && strings.Contains(r.errs, tt[1])), tt[0], "exit code", r.code, r.errs)
	}
	if os.Geteuid() != 0 { // root reads everything
		for _, args := range [][]string{{"--config", unreadable}, {"--config-dir", filepath.Dir(unreadable)}} {
			execute(t, "", append([]string{"config", "serve"}, args...)...).ends(t, terminal.ExitUsage, "permission denied")
		}
	}
}

// settingsShown returns the settings that `daybook config` prints for a command line, by name.
func settingsShown(t *testing.T, args ...string) map[string]config.ShownSetting {
	t.Helper()
	all := map[string]config.ShownSetting{}
	for line := range strings.Lines(ok(t, append([]string{"config", "--json"}, args...)...)) {
		s := parsed[config.ShownSetting](t, line)
		all[s.Name] = s
	}
	return all
}

// TestPrecedence: each source has precedence over the sources before it, for flags of all types and for all commands.
func TestPrecedence(t *testing.T) {
	for _, tt := range []struct {
		verb, flag string
		values     [5]string // in default, the second layer, local, the variable, the flag; in TOML
		want       [5]any
	}{
		{"serve", "max-attempts", [5]string{"4", "5", "'6'", "7", "8"}, [5]any{4., 5., 6., 7., 8.}},
		{"serve", "allow-quit", [5]string{"true", "false", "true", "false", "true"}, [5]any{true, false, true, false, true}},
		{"serve", "retention", [5]string{"'1d'", "'36h'", "'2w'", "4h", "5s"}, [5]any{"1d", "1d12h", "2w", "4h", "5s"}},
		{"serve", "allow-host", [5]string{"['a']", "['b','c']", "['d,e']", "f,g", "h"}, [5]any{[]any{"a"}, []any{"b", "c"}, []any{"d,e"}, []any{"f", "g"}, []any{"h"}}},
		{"serve", "journal-retain", [5]string{"1024", "'2k'", "'3M'", "4096", "5G"}, [5]any{"1024", "2048", "3145728", "4096", "5368709120"}},
		{"serve", "data", [5]string{"'a'", "'b'", "'c'", "d", "e"}, [5]any{"a", "b", "c", "d", "e"}},
		{"check", "data", [5]string{"'a'", "'b'", "'c'", "d", "e"}, [5]any{"a", "b", "c", "d", "e"}},
		{"queues", "server", [5]string{"'a'", "'b'", "'c'", "d", "e"}, [5]any{"a", "b", "c", "d", "e"}},
		{"work", "server", [5]string{"'a'", "'b'", "'c'", "d", "e"}, [5]any{"a", "b", "c", "d", "e"}},
		{"work", "concurrency", [5]string{"4", "5", "6", "7", "8"}, [5]any{4., 5., 6., 7., 8.}},
		{"work", "label", [5]string{"['a=b']", "['c=d','e=f,g']", "['h=i']", "j=k,l=m", "n=o"}, [5]any{[]any{"a=b"}, []any{"c=d", "e=f,g"}, []any{"h=i"}, []any{"j=k", "l=m"}, []any{"n=o"}}},
		{"add", "max-attempts", [5]string{"4", "5", "6", "7", "8"}, [5]any{4., 5., 6., 7., 8.}},
		{"submit", "type", [5]string{"'a'", "'b'", "'c'", "d", "e"}, [5]any{"a", "b", "c", "d", "e"}},
	} {
		t.Run(tt.verb+" "+tt.flag, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{tt.verb, "--config-dir", dir}
			get := func() config.ShownSetting { return settingsShown(t, args...)[tt.flag] }
			testkit.Equal(t, get().Origin, "default", "without any source")
			want := func(n int, origin string) {
				t.Helper()
				if s := get(); s.Origin != origin || !reflect.DeepEqual(s.Value, tt.want[n]) {
					t.Errorf("%+v, want %#v from %s", s, tt.want[n], origin)
				}
			}
			text := func(value string) string {
				if slices.Contains(config.Sections(), tt.verb) && tt.flag != "server" {
					return fmt.Sprintf("# a comment\n[%s]\n%s = %s\n", tt.verb, tt.flag, value)
				}
				return fmt.Sprintf("# a comment\n\n%s = %s\n", tt.flag, value)
			}
			t.Setenv("DAYBOOK_ENV", "production")
			for n, name := range []string{"default.toml", "production.toml", "local.toml"} {
				want(n, writeFile(t, dir, name, text(tt.values[n]))+":3")
			}
			name := config.Variable(tt.verb, tt.flag)
			t.Setenv(name, tt.values[3])
			want(3, name)
			t.Setenv(name, "") // as if it were not set
			want(2, filepath.Join(dir, "local.toml")+":3")
			args = append(args, "--", "--"+tt.flag+"="+tt.values[4])
			want(4, "command line")
		})
	}
}

// TestLayers: a layer may be missing. DAYBOOK_ENV names the second layer. No file is read
// unless a flag or variable names it.
func TestLayers(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	def := writeFile(t, dir, "config/default.toml", "max-attempts = 4\nretention = '1d'\n[work]\nconcurrency = 2\n[add]\ntype = 'a'\n")
	prod := writeFile(t, dir, "config/production.toml", "retention = '2d'\nqueue-idle = '2h'\n")
	local := writeFile(t, dir, "config/local.toml", "queue-idle = '3h'\n[work]\ndrain = '5s'\n")
	testkit.Equal(t, settingsShown(t)["retention"].Origin, "default", "files were read without being asked for")
	at := func(path, line string) string { return strings.TrimPrefix(path, dir+"/") + ":" + line }
	check := func(env, verb string, want map[string]string) {
		t.Helper()
		t.Setenv("DAYBOOK_ENV", env)
		all := settingsShown(t, verb, "--config-dir", "config")
		for name, want := range want {
			testkit.Equal(t, fmt.Sprint(all[name].Value, " ", all[name].Origin), want, "DAYBOOK_ENV", env, name)
		}
	}
	check("", "serve", map[string]string{"max-attempts": "4 " + at(def, "1"), "retention": "1d " + at(def, "2"), "queue-idle": "3h " + at(local, "1")})
	check("missing", "serve", map[string]string{"retention": "1d " + at(def, "2")})
	check("production", "serve", map[string]string{"retention": "2d " + at(prod, "1"), "queue-idle": "3h " + at(local, "1"), "max-attempts": "4 " + at(def, "1")})
	check("production", "work", map[string]string{"concurrency": "2 " + at(def, "4"), "drain": "5s " + at(local, "3")})
	check("production", "add", map[string]string{"type": "a " + at(def, "6"), "retention": "0s default"})

	dev := writeFile(t, dir, "config/development.toml", "retention = '3d'\n")
	check("", "serve", map[string]string{"retention": "3d " + at(dev, "1"), "queue-idle": "3h " + at(local, "1")})
	check("production", "serve", map[string]string{"retention": "2d " + at(prod, "1")})

	// The variable names the directory, too. --config has precedence over it.
	t.Setenv("DAYBOOK_CONFIG_DIR", "config")
	s := settingsShown(t)["queue-idle"]
	testkit.Equal(t, s.Value, "3h", s)
	other := writeFile(t, dir, "other.toml", "queue-idle = '9h'\n")
	all := settingsShown(t, "serve", "--config", other)
	testkit.Holds(t, all["queue-idle"].Value == "9h" && all["max-attempts"].Origin == "default", all["queue-idle"])
	t.Setenv("DAYBOOK_CONFIG", other)
	execute(t, "", "config").ends(t, terminal.ExitUsage, "DAYBOOK_CONFIG and DAYBOOK_CONFIG_DIR are both set")
	s = settingsShown(t, "work")["concurrency"]
	testkit.Equal(t, s.Value, 2., s) // a runner's file has a separate variable
	s = settingsShown(t, "serve", "--config-dir", "config")["queue-idle"]
	testkit.Equal(t, s.Value, "3h", s)
	t.Setenv("DAYBOOK_CONFIG", "")

	for _, env := range []string{"../other", "a/b", ".", "..", ".hidden", `a\b`} {
		t.Setenv("DAYBOOK_ENV", env)
		execute(t, "", "config").ends(t, terminal.ExitUsage, "DAYBOOK_ENV")
	}
}

// TestExamplesOfLayers: the files in docs/reference/configuration-files.md are valid, and are merged as the text says.
func TestExamplesOfLayers(t *testing.T) {
	text := testkit.Must(os.ReadFile("../../docs/reference/configuration-files.md"))(t)
	dir := t.TempDir()
	for _, example := range strings.Split(string(text), "```toml title=\"config/")[1:] {
		name, example, _ := strings.Cut(example, "\"\n")
		example, _, _ = strings.Cut(example, "```")
		writeFile(t, dir, name, example)
	}
	t.Setenv("DAYBOOK_ENV", "production")
	serve, work, add := settingsShown(t, "serve", "--config-dir", dir), settingsShown(t, "work", "--config-dir", dir), settingsShown(t, "add", "--config-dir", dir)
	testkit.Holds(t, serve["max-attempts"].Value == 5. && serve["journal-retain"].Value == "10737418240" && work["concurrency"].Value == 64. &&
		work["server"].Value == "https://queue.example" && add["retention"].Value == "30d", serve, work, add)
}

// TestTablesInLayers: the tables of work are merged across layers, and paths in them are relative to the directory.
func TestTablesInLayers(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "default.toml", "[work.handlers.upper]\nkind = 'exec'\nargv = ['tr', 'a-z', 'A-Z']\ntypes = ['a', 'b']\noptions = { timeout_ms = 5000 }\n[work.containers]\ncpus = 1.5\n")
	writeFile(t, dir, "local.toml", "[work.handlers.upper]\ntypes = ['c']\noptions = { concurrency = 2 }\n[work.handlers.s]\nkind = 'script'\nlang = 'sh'\nsource_file = 's.sh'\n")
	writeFile(t, dir, "s.sh", "handle() { :; }")
	read := func() (*work.File, error) {
		cmd := config.CommandNamed(allCommands(), "work")
		cmd.InheritedFlags()
		testkit.NoError(t, cmd.Flags().Set("config-dir", dir))
		if err := config.Configure(cmd, allCommands); err != nil {
			return nil, err
		}
		return work.ReadFile(cmd)
	}
	file := testkit.Must(read())(t)
	upper := file.Handlers["upper"]
	testkit.Holds(t, upper != nil && slices.Equal(upper.Program.Argv, []string{"tr", "a-z", "A-Z"}) &&
		slices.Equal(*upper.Types, []string{"c"}) && upper.Document.Options.TimeoutMs == 5000 && upper.Document.Options.Concurrency == 2, upper)
	s := file.Handlers["s"]
	testkit.Holds(t, s != nil && s.Document.Source == "handle() { :; }" && file.Containers.CPUs == 1.5, s, file.Containers)
	local := writeFile(t, dir, "local.toml", "[work.handlers.upper]\nargs = ['c']\n")
	if _, err := read(); err == nil || exitCode(err) != terminal.ExitUsage || !strings.Contains(err.Error(), local+": handlers.upper.args is not known") {
		t.Error(err)
	}
}

// TestServerInFiles: of server and context only the one with the highest precedence counts.
func TestServerInFiles(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const ofB, noC = `context "b"`, `context "c", which does not exist`
	ok(t, "context", "add", "b", "127.0.0.1:2")
	ok(t, "context", "use")
	for _, tt := range []struct{ def, local, args, server, context string }{
		{"server = 'a'", "context = 'b'", "", ofB, "local.toml:1"},
		{"context = 'b'", "server = 'a'", "", "local.toml:1", "default"},
		{"[work]\nserver = 'a'", "context = 'b'", "", "default.toml:2", "default"},
		{"server = 'a'", "[work]\ncontext = 'b'", "", ofB, "local.toml:2"},
		{"server = 'a'", "", "--context c", noC, "command line"},
		{"context = 'a'", "", "--server c", "command line", "default"},
		{"server = 'a'\ncontext = 'b'", "", "", "", "each names a server"},
	} {
		dir := t.TempDir()
		writeFile(t, dir, "default.toml", tt.def)
		writeFile(t, dir, "local.toml", tt.local)
		args := append([]string{"work", "--config-dir", dir, "--"}, strings.Fields(tt.args)...)
		if tt.server == "" {
			execute(t, "", append([]string{"config"}, args...)...).ends(t, terminal.ExitUsage, tt.context)
			continue
		}
		all := settingsShown(t, args...)
		testkit.Holds(t, strings.HasSuffix(all["server"].Origin, tt.server) && strings.HasSuffix(all["context"].Origin, tt.context),
			tt, all["server"], all["context"])
	}
}

// TestConfigOfContext: the server is the one that the command would use, with the name of its context.
func TestConfigOfContext(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	ok(t, "context", "add", "one", "http://queue.example:1717")
	ok(t, "context", "add", "two", "https://user:secret@other.example")
	const one, two = "http://queue.example:1717", "https://…@other.example"
	for _, tt := range []struct {
		variable, flags                   string
		server, serverFrom, context, toml string
	}{
		{"", "", one, `context "one"`, "", "server = '" + one + "'"}, // it is in use
		{"", "--context two", two, `context "two"`, "two", "context = 'two'"},
		{"two", "", two, `context "two"`, "two", "context = 'two'"},
		{"three", "", "", `context "three", which does not exist`, "three", "context = 'three'"},
		{"two", "--server here:1", "here:1", "command line", "", "server = 'here:1'"},
	} {
		t.Setenv("DAYBOOK_CONTEXT", tt.variable)
		args := append([]string{"work", "--"}, strings.Fields(tt.flags)...)
		all := settingsShown(t, args...)
		s := all["server"]
		testkit.Holds(t, s.Value == tt.server && s.Origin == tt.serverFrom && all["context"].Value == tt.context, tt, s, all["context"])
		var set []string
		for line := range strings.Lines(ok(t, append([]string{"config", "--toml"}, args...)...)) {
			if strings.HasPrefix(line, "server") || strings.HasPrefix(line, "context") {
				set = append(set, strings.TrimSpace(strings.Split(line, " #")[0]))
			}
		}
		testkit.EqualSlices(t, set, []string{tt.toml})
	}
	t.Setenv("DAYBOOK_CONTEXT", "")
	ok(t, "context", "use")
	s := settingsShown(t, "work")["server"]
	testkit.Holds(t, s.Value == config.DefaultServer && s.Origin == "default", "without a context", s)
	writeFile(t, os.Getenv("XDG_CONFIG_HOME"), "daybook/contexts.toml", "not TOML")
	execute(t, "", "config", "work").ends(t, terminal.ExitUsage, "contexts.toml") // contexts that cannot be read
}

// TestConfigPasswords: no output has a password of an address, and the configuration file does not pretend to have it.
func TestConfigPasswords(t *testing.T) {
	path := writeFile(t, t.TempDir(), "a.toml", "server = 'http://user:secret@host:1'\non-lost = 'curl -d x \"https://user:secret@hooks.example/x\"'\n")
	for _, verb := range []string{"serve", "work", "queues", "add"} {
		for _, form := range []string{"", "--json", "--toml"} {
			args := append([]string{"config", verb}, strings.Fields(form)...)
			if verb == "work" {
				args = append(args, "--", "--server", "http://user:secret@host:1")
			} else {
				args = append(args, "--config", path)
			}
			text := ok(t, args...)
			testkit.Holds(t, !strings.Contains(text, "secret") &&
				(strings.Contains(text, "…@") || strings.Contains(text, "curl …")), args, text)
			if form == "--toml" {
				var values map[string]any
				err := toml.Unmarshal([]byte(text), &values)
				testkit.Holds(t, err == nil && values["server"] == nil && values["on-lost"] == nil, args, values, err)
			}
		}
	}
}

// TestConfigOfEachVerb: from the output of `daybook config VERB --toml` as a file, the command gets the same settings.
func TestConfigOfEachVerb(t *testing.T) {
	verbs := 0
	config.VisitCommands(allCommands(), func(cmd *cobraCommand) {
		verb := config.VerbOf(cmd)
		if !cmd.Runnable() || len(config.SettingsOf(cmd)) == 0 {
			return
		}
		verbs++
		args := append([]string{"config", "--toml"}, strings.Fields(verb)...)
		args = append(args, "--")
		var given []string
		for _, f := range config.SettingsOf(cmd) {
			value := map[string]string{"address": "http://a.example", "duration": "90s", "int": "3", "bool": "true", "stringSlice": "a,b", "stringToString": "a=b,c=d", "bytes": "5M", "strategy": "fair"}[f.Value.Type()]
			switch f.Name {
			case "listen", "opsqueue", "pprof":
				value = "127.0.0.1:1"
			case "opsqueue-key":
				value = "the.key"
			case "context", "otlp", "on-lost", "blobs", "mdns", "log-level", "log-format", "allow-origin", "oidc-file",
				"node", "cluster-listen", "cluster-init", "join", "cluster-ca", "cluster-cert", "cluster-key", "tls-cert", "tls-key", "tls-min-version", "tls-client-ca", "tls-client-auth", "tls-client-rule": // they depend on each other
				continue
			}
			if value == "" {
				value = "text with 'quotes'"
			}
			given = append(given, "--"+f.Name+"="+value)
		}
		first := ok(t, append(args, given...)...)
		testkit.Equal(t, strings.Contains(first, "# The tables [handlers], [interpreters], [containers], [wasi] are not printed"), verb == "work")
		path := writeFile(t, t.TempDir(), "again.toml", first)
		again := ok(t, append([]string{"config", "--toml", "--config", path}, strings.Fields(verb)...)...)
		var a, b map[string]any
		testkit.NoError(t, toml.Unmarshal([]byte(first), &a))
		testkit.NoError(t, toml.Unmarshal([]byte(again), &b))
		own := a
		if table, ok := a[verb].(map[string]any); ok {
			own = table
		}
		testkit.DeepEqual(t, a, b, verb)
		testkit.Equal(t, len(own), len(given), verb)
	})
	testkit.Holds(t, verbs >= 10, verbs, "commands have settings")
	for _, tt := range [][2]string{{"nonsense", "there is no command"}, {"version", "has no settings"}, {"serve -- extra", "only flags"}, {"serve -- --nonsense", "unknown flag"}, {"serve -- --max-attempts 0", "--max-attempts"}} {
		execute(t, "", append([]string{"config"}, strings.Fields(tt[0])...)...).ends(t, terminal.ExitUsage, tt[1])
	}
}

// TestOwnSettings: the table of settings of commands names only flags that exist and that a file may set.
func TestOwnSettings(t *testing.T) {
	all := allCommands()
	for verb, flags := range config.OwnSettings {
		cmd := config.CommandNamed(all, verb)
		if cmd == nil {
			t.Errorf("there is no command %s", verb)
			continue
		}
		for _, name := range flags {
			testkit.Holds(t, cmd.Flags().Lookup(name) != nil &&
				!slices.Contains([]string{"yes", "dry-run", "json", "help"}, name), verb, "has no flag", name, "or a file must not set it")
		}
	}
}

// TestTypesOfSettings: printing supports the types of all flags that are settings.
func TestTypesOfSettings(t *testing.T) {
	config.VisitCommands(allCommands(), func(cmd *cobraCommand) {
		for _, f := range config.SettingsOf(cmd) {
			testkit.Holds(t, typeOf(f) != "", config.VerbOf(cmd), f.Name, "has the type", f.Value.Type())
		}
	})
}

// typeOf returns the type of a setting for people; "" for an unknown one.
func typeOf(f *pflag.Flag) string {
	return map[string]string{
		"address": "address", "string": "text", "int": "number", "bool": "true or false", "duration": "duration", "bytes": "bytes", "strategy": "text", "stringSlice": "list", "stringToString": "list of name=value",
	}[f.Value.Type()]
}
