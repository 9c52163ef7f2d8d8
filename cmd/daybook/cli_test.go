package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

var rewriteCLI = flag.Bool("rewrite-cli", false, "write testdata/cli again, after commands have changed")

const sampleID = "0185a1b2-c3d4-7000-8000-00000c800000"

// sampleArgs are arguments with which a command sends a request. Commands that are not here need none.
var sampleArgs = map[string][]string{
	"add": {"-"}, "backup": {"directory"}, "cluster remove": {"n3"}, "blob get": {"sha256:" + strings.Repeat("0", 64)}, "blob put": {"-"}, "cancel": {sampleID}, "close": {sampleID}, "complete": {sampleID},
	"create": {"payload"}, "fileset history": {"input"}, "fileset pull": {"input", "directory"}, "fileset push": {".", "input"}, "fileset rm": {"input"}, "get": {sampleID}, "handler get": {"resize"}, "handler history": {"resize"}, "handler put": {"resize", "-", "--lang", "sh", "--no-check"}, "handler rm": {"resize"}, "logs": {sampleID},
	"pause": {"acme/resize"}, "queues delete": {"acme/resize"}, "redrive": {sampleID}, "release": {sampleID}, "results": {sampleID}, "resume": {"acme/resize"},
	"limits get": {"acme"}, "limits rm": {"acme"}, "limits set": {"acme", "--queues", "5"},
	"key create": {"acme", "--role", "reader"}, "key get": {"acme"}, "key import": {"acme", "--role", "reader"}, "key revoke": {"acme"}, "key rotate": {"acme"},
	"rm": {sampleID}, "run": {sampleID}, "submit": {"-"}, "tickle": {sampleID},
	"top": {"--once"}, "watch": {sampleID},
}

// notAsked are the commands that do not fail at once without a server, with the reason.
var notAsked = map[string]string{
	"work":  "it waits for its server",
	"bench": "it starts a server of its own",
}

// eachCommand calls f with each command that a user can run, by its name without "daybook".
func eachCommand(f func(name string, cmd *cobra.Command)) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.Name() == "help" || c.Name() == "completion" || c.Hidden {
				continue // a command of cobra
			}
			f(strings.TrimPrefix(c.CommandPath(), "daybook "), c)
			walk(c)
		}
	}
	walk(newRoot().Command)
}

// golden compares a text with the file of a command, or writes it.
func golden(t *testing.T, command, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", "cli", strings.ReplaceAll(command, " ", "-"), file)
	if *rewriteCLI {
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	testkit.NoError(t, err, "write it with: go test ./cmd/daybook -run TestCLI -rewrite-cli")
	testkit.Equal(t, got, string(want), file, "of daybook", command, "has changed; if it is right, write it again with -rewrite-cli before")
}

// composed are the commands whose description is put together from parts.
var composed = []string{"cancel", "configuration", "environment", "exit-codes", "redrive", "rm", "run"}

// globalFlags is the end of the help of each command.
const globalFlags = `
Global Flags:
      --config string       file with settings, in TOML; daybook help configuration
      --config-dir string   directory with settings, in the files default.toml, $DAYBOOK_ENV.toml and local.toml
`

// commonFlags are the lines of flags that many commands have, with one space between words and the name of the command as NAME.
var (
	commonFlag  = regexp.MustCompile(`(?m)^ +(?:-h, --help|--context string|--server address|--tls-ca string|--tls-cert string +file with a certificate of|--tls-key string +file with the key of this) .*\n`)
	commonFlags = []string{
		`--context string name of a server that was stored with "daybook context add"`,
		"--server address address of the server: a URL, host:port, a host whose server listens on port 1717, or mdns: to find it on the local network; several nodes of a cluster are separated by commas (default a server of its own)",
		"--server address address of the server: a URL, host:port, a host whose server listens on port 1717, or mdns: to find it on the local network; several nodes of a cluster are separated by commas (default http://127.0.0.1:1717)",
		"--tls-ca string file with the certificates that sign the server's (default: those that the system trusts)",
		"--tls-cert string file with a certificate of this client, if the server requires one",
		"--tls-key string file with the key of this client's certificate",
		"-h, --help help for NAME",
	}
)

// TestCLIHelp: the help of each command has its description, its arguments, its examples and the flags of all commands, and
// the rest of it agrees with its file, which leaves these out: their texts are where the command is.
func TestCLIHelp(t *testing.T) {
	common := map[string]bool{}
	host := testkit.Must(os.Hostname())(t)
	eachCommand(func(name string, cmd *cobra.Command) {
		text := execute(t, "", append([]string{"help"}, strings.Fields(name)...)...).ends(t, terminal.ExitOK).out
		if !slices.Contains(composed, name) {
			cmd.InitDefaultHelpFlag() // of which UseLine tells
			parts := []string{cmd.Long + "\n\n", "Examples:\n" + cmd.Example + "\n\n", globalFlags}
			if !cmd.HasSubCommands() {
				parts = append(parts, "Usage:\n  "+cmd.UseLine()+"\n\n")
			}
			for _, part := range parts {
				testkit.Equal(t, strings.Count(text, part), 1, "the help of daybook", name, "lacks, or has twice:", part)
				text = strings.Replace(text, part, "", 1)
			}
			text = commonFlag.ReplaceAllStringFunc(text, func(line string) string {
				line = strings.Join(strings.Fields(line), " ")
				common[strings.Replace(line, "help for "+cmd.Name(), "help for NAME", 1)] = true
				return ""
			})
		}
		golden(t, name, "help.txt", strings.ReplaceAll(text, host, "HOST"))
	})
	testkit.EqualSlices(t, slices.Sorted(maps.Keys(common)), commonFlags)
}

// TestCLIWrongUse: each command refuses unknown flags and surplus arguments, prints nothing else, and names its help.
// wrong-use.txt has for each command why it refuses the arguments.
func TestCLIWrongUse(t *testing.T) {
	var lines strings.Builder
	eachCommand(func(name string, cmd *cobra.Command) {
		if !cmd.Runnable() {
			return // a help topic
		}
		refused := func(args ...string) (why string) {
			t.Helper()
			r := execute(t, "", append(strings.Fields(name), args...)...)
			why, begins := strings.CutPrefix(r.ends(t, terminal.ExitUsage).errs, "daybook: ")
			why, ends := strings.CutSuffix(why, fmt.Sprintf("\n`daybook help %s` shows its arguments and flags.\n", name))
			testkit.Holds(t, begins && ends && r.out == "", "daybook", r.line, r.out, r.errs)
			return why
		}
		testkit.Equal(t, refused("--no-such-flag"), "unknown flag: --no-such-flag", name)
		tooMany := []string{"a", "b", "c", "d"}
		if err := cmd.ValidateArgs(tooMany); err == nil && len(cmd.Commands()) == 0 {
			tooMany = []string{"not-an-id"} // the command takes any number
		}
		if name == "blob put" { // accepts files of any number and name
			tooMany = []string{"--client", "not a name", "-"}
		}
		fmt.Fprintf(&lines, "%s: %s\n", name, refused(tooMany...))
	})
	golden(t, "", "wrong-use.txt", lines.String())
}

// TestCLIUnreachable: the message of each command when no server runs.
func TestCLIUnreachable(t *testing.T) {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	testkit.NoError(t, l.Close()) // nobody listens there from now on
	eachCommand(func(name string, cmd *cobra.Command) {
		if cmd.Flags().Lookup("server") == nil {
			return
		}
		if why, ok := notAsked[name]; ok {
			t.Logf("%s is left out: %s", name, why)
			return
		}
		dir := t.TempDir()
		args := slices.Clone(sampleArgs[name])
		for i, a := range args {
			if a == "." || a == "directory" {
				args[i] = dir
			}
		}
		r := execute(t, "line\n", append(append(strings.Fields(name), args...), "--server", address)...).ends(t, terminal.ExitNoAnswer)
		testkit.Equal(t, r.out, "", name)
		testkit.Equal(t, strings.ReplaceAll(r.errs, address, "SERVER"), "daybook: no answer from SERVER: dial tcp SERVER: connect: connection refused\n"+
			"Check that `daybook serve` runs, and that --server (or DAYBOOK_SERVER) is its address.\n", name)
	})
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moments = regexp.MustCompile(`\b1[0-9]{12}\b`)
	numbers = regexp.MustCompile(`:-?[0-9][0-9.e+-]*`)
	ages    = regexp.MustCompile(`"(oldest_pending_age_ms|per_second|estimate_ms|snowflake|now|heartbeat_at)":-?[0-9.e+-]+`)
)

// stable replaces text that differs from run to run: ids are numbered as they appear.
func stable(text string, ids map[string]string) string {
	text = uuids.ReplaceAllStringFunc(text, func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprintf("ID-%d", len(ids)+1)
		}
		return ids[id]
	})
	text = moments.ReplaceAllString(text, "TIME")
	return ages.ReplaceAllString(text, `"$1":N`)
}

// withoutJSON are the commands without --json, with the reason.
var withoutJSON = map[string]string{
	"blob": "it needs a command", "cluster": "it needs a command", "context": "it needs a command", "fileset": "it needs a command", "handler": "it needs a command", "key": "it needs a command", "limits": "it needs a command", "journal": "it needs a command", "tls": "it needs a command",
	"blob get": "it writes the bytes of the blob", "logs": "it writes what the job has printed", "licenses": "it writes texts", "man": "it writes files",
	"serve": "it writes a log", "work": "it writes a log", "journal give-up": "it asks, and changes the journal once",
}

// TestCLIJSON: the output of each command with --json. The commands work on the data of one server, in an order.
func TestCLIJSON(t *testing.T) {
	s := serving(t, filepath.Join(t.TempDir(), "data"), "--blobs-collect", "0")
	ids := map[string]string{}
	seen := map[string]bool{}
	last := ""
	step := func(name, in string, args ...string) string {
		t.Helper()
		seen[name] = true
		all := append(strings.Fields(name), args...)
		if commandOf(name).Flags().Lookup("server") != nil {
			all = append(all, "--server", s.url)
		}
		r := execute(t, in, append(all, "--json")...)
		testkit.MustEqual(t, r.code, terminal.ExitOK, "daybook", name, args, "exit code", r.errs)
		for _, line := range strings.Split(strings.TrimSpace(r.out), "\n") {
			testkit.Holds(t, line == "" || strings.HasPrefix(line, "{"), "daybook", name, "--json printed", line)
		}
		text := stable(r.out, ids)
		switch name {
		case "audit", "ping", "stats", "version", "start", "stop", "clock", "level", "level raise", "bench", "disk":
			text = strings.ReplaceAll(numbers.ReplaceAllString(text, ":N"), ":TIME", ":N")
		}
		golden(t, name, "json.txt", regexp.MustCompile(`"(commit|go|version|last_error|uuid)":"[^"]*"`).ReplaceAllString(text, `"$1":"…"`))
		if found := uuids.FindString(r.out); found != "" {
			last = found
		}
		return last
	}
	deferred := step("create", "", "p", "--delay", "1h", "--type", "later", "--meta", "user=42")
	step("run", "", deferred)
	testkit.Equal(t, ok(t, "cancel", deferred, "--dry-run", "--json", "--server", s.url),
		fmt.Sprintf(`{"job_id":%q,"operation":"cancel","status":"pending","would_move":true}`+"\n", deferred), "--dry-run --json printed")
	step("cancel", "", deferred)
	step("redrive", "", deferred)
	step("claim", "", "--runner-id", "r", "--type", "later")
	step("runners", "")
	step("tickle", "", deferred, "--progress", "0.5")
	step("release", "", deferred)
	execute(t, "", "claim", "--runner-id", "r", "--type", "later", "--server", s.url)
	step("complete", "", deferred, "--output", "42")
	step("get", "", deferred)
	step("jobs", "", "--status", "completed")
	step("rm", "", deferred)
	step("add", "a\nb\n", "--type", "lines")
	step("queues", "")
	step("pause", "", "default/lines")
	step("resume", "", "default/lines")
	step("queues delete", "", "default/later")
	batch := step("submit", "1\n2\n", "--name", "n", "--type", "sub")
	step("batches", "")
	claimed := ok(t, "claim", "--runner-id", "r", "--type", "sub", "--max", "2", "--server", s.url)
	for _, id := range uuids.FindAllString(claimed, -1)[1:] {
		ok(t, "complete", id, "--output", "done", "--server", s.url)
	}
	step("results", "", batch)
	step("watch", "", batch)
	opened := testkit.Must(client.New(s.url, client.Options{}).CreateBatch(t.Context(), client.NewBatch{Type: "open", Open: true},
		[]client.NewJob{{Payload: []byte("1")}}))(t)
	step("close", "", opened.BatchID)
	step("disk", "")
	step("sweeps", "")
	step("stop", "")
	step("start", "")
	step("audit", "", "--command", "stop")
	step("ping", "")
	step("stats", "")
	step("clock", "")
	step("level", "")
	step("level raise", "")
	step("config", "", "add")
	step("version", "")
	t.Setenv("DAYBOOK_BY", "anna")
	step("handler put", `{"kind":"http","url":"http://127.0.0.1:8080/"}`, "resize", "-")
	step("handler get", "", "resize")
	step("handler ls", "")
	step("handler rm", "", "resize")
	step("handler history", "", "resize")
	step("blob put", "text", "-")
	step("blob ls", "")
	step("blob gc", "")
	dir := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644))
	step("fileset push", "", dir, "set")
	step("fileset ls", "")
	step("fileset pull", "", "set", t.TempDir())
	step("fileset rm", "", "set")
	step("fileset history", "", "set")
	for _, words := range [][]string{{"add", "here", s.url}, {"list"}, {"use", "here"}, {"remove", "here"}} {
		name := "context " + words[0]
		golden(t, name, "json.txt", strings.ReplaceAll(ok(t, append(append([]string{"context"}, words...), "--json")...), s.url, "SERVER"))
		seen[name] = true
	}
	eachCommand(func(name string, cmd *cobra.Command) {
		testkit.Holds(t, !cmd.Runnable() || seen[name] || withoutJSON[name] != "" || elsewhereJSON[name] != "", name, "has no golden file")
	})
}

// elsewhereJSON are the commands whose --json is tested elsewhere, with the reason.
var elsewhereJSON = map[string]string{
	"backup": "TestBackup reads it", "restore": "TestBackup reads it",
	"bench": "its figures take a minute", "check": "it needs a stopped server", "rebuild": "it needs a stopped server", "journal dump": "it needs a stopped server",
	"journal verify": "it needs a stopped server", "discover": "it needs a network",
	"cluster status": "it needs a cluster; see TestServeCluster", "cluster transfer": "the same", "cluster remove": "the same",
	"key create": "the texts of keys are random: see TestKeyCommands", "key get": "see TestKeyCommands", "key import": "see TestKeyCommands", "key list": "see TestKeyCommands",
	"key revoke": "see TestKeyCommands", "key rotate": "see TestKeyCommands", "key whoami": "see TestKeyCommands",
	"limits get": "see TestLimitsCommands", "limits list": "the same", "limits rm": "the same", "limits set": "the same",
	"key encryption":  "its id is random: see TestKeyEncryption",
	"tls self-signed": "its names are those of the machine; see TestSelfSigned", "top": "its figures change; see TestTopOnce",
}

func commandOf(name string) *cobra.Command {
	cmd, _, err := newRoot().Find(strings.Fields(name))
	if err != nil {
		panic(err)
	}
	return cmd
}

// TestCLIDocumented: each command has a description, an example, a manual page, a page of the site, and completes its arguments.
func TestCLIDocumented(t *testing.T) {
	dir := t.TempDir()
	ok(t, "man", dir)
	ok(t, "man", "--markdown", dir)
	eachCommand(func(name string, cmd *cobra.Command) {
		if !cmd.Runnable() {
			return // a help topic
		}
		file := "daybook-" + strings.ReplaceAll(name, " ", "-")
		testkit.Holds(t, cmd.Short != "" && cmd.Long != "" && cmd.Example != "", "daybook", name, "lacks a description or an example")
		text := testkit.Must(os.ReadFile(filepath.Join(dir, file+".1")))(t)
		testkit.Holds(t, bytes.Contains(text, []byte("EXAMPLE")), "daybook", name, "has no manual page with an example")
		if strings.Contains(cmd.Use, "[") || strings.Contains(cmd.Use, " ") && len(cmd.Commands()) == 0 {
			testkit.Holds(t, cmd.ValidArgsFunction != nil || len(cmd.ValidArgs) != 0 || takesFiles[name] != "", name, "completes no arguments")
		}
		text = testkit.Must(os.ReadFile(filepath.Join(dir, file+".md")))(t)
		testkit.Holds(t, bytes.Contains(text, []byte("### Examples")), "daybook", name, "has no page with an example")
	})
	if text, err := os.ReadFile(filepath.Join(dir, "daybook.md")); err != nil || !bytes.Contains(text, []byte("(daybook-add.md)")) {
		t.Errorf("the page of daybook has no link to the page of add: %v\n%s", err, text)
	}
}

// TestManPages: tables keep their lines, flags are as in the help, and help topics have pages.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	ok(t, "man", dir)
	for name, wants := range map[string][]string{
		"add": {
			".EX\n  lines   each line is a text", "\n  ndjson  each line is a JSON value",
			"\\fB--delimiter string\\fP\n\tthe character between", `(default ",")`, "\\fB-h, --help\\fP\n", "\\fB--delay duration\\fP\n\thow long the job waits before it may run\n",
		},
		"exit-codes":    {"\n    0  success\n", "\n  130  SIGINT"},
		"environment":   {"DAYBOOK_SERVER"},
		"configuration": {"--config"},
	} {
		text := testkit.Must(os.ReadFile(filepath.Join(dir, "daybook-"+name+".1")))(t)
		for _, want := range wants {
			testkit.Contains(t, strings.ReplaceAll(string(text), `\-`, "-"), want)
		}
	}
}

// takesFiles are the commands whose arguments are files, or names that no server has, which the shell completes as
// files.
var takesFiles = map[string]string{
	"backup": "a directory", "restore": "a directory",
	"add": "a file", "submit": "a file", "man": "a directory", "create": "a payload", "context add": "a new name", "key encryption": "a file", "blob put": "a file", "blob get": "an address",
}

func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"nonsense", "unknown command"},
		{"serve --nonsense", "unknown flag"},
		{"serve extra", "serve takes no arguments"},
		{"serve --max-attempts x", "invalid argument"},
		{"serve --max-attempts 0", "--max-attempts"},
		{"serve --max-attempts 1001", "--max-attempts"},
		{"serve --abandoned-age 999ms", "--abandoned-age"},
		{"serve --abandoned-age 25h", "--abandoned-age"},
		{"serve --abandoned-age soon", "not a duration"},
		{"serve --retention -1s", "--retention"},
		{"serve --retention 1.5d", "not a duration"},
		{"serve --history 1023k", "--history must be 1048576 to"},
		{"serve --history 2000T", "--history must be"},
		{"serve --history-age 59s", "--history-age must be"},
		{"serve --journal-retain -1", "number of bytes"},
		{"serve --journal-retain many", "number of bytes"},
		{"serve --log-level loud", "--log-level"},
		{"serve --log-format xml", "--log-format"},
		{"work --log-format xml", "--log-format"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept wasm", "not one of exec, http, script, wasi, container"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept container", "--accept container requires --images"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept container --images busybox", "--images: the image \"busybox\" must begin with a registry"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --wasi-grant root", `--wasi-grant: "root" is no permission`},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --wasi-extensions /none", "read the directory of extensions"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept script --concurrency -1", "--concurrency must be 1 to"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept script --types a/b", "--types may hold only"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept script --strategy best", "not one of oldest"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept script --strategy prefer_distinct:user", "not one of oldest"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept script --strategy prefer_distinct:/random", "1 to 64 bytes"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept script --sandbox maybe", "--sandbox must be"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept http --http-allow 1.2.3.4/99", "--http-allow"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept http --config /none/work.toml", "read configuration"},
		{"work --server http://127.0.0.1:1 --until-idle 1ms --accept http --listen 0.0.0.0:0", "not a loopback address"},
		{"completion tcsh", `unknown command "tcsh"`},
		{"completion", "completion requires a command: bash, fish, powershell or zsh"},
		{"completion bash zsh", `unknown command "zsh"`},
		{"get", "get needs ID\n`daybook help get` shows"},
		{"rm", "daybook rm requires the ids of jobs, or --batch, or --queue\n`daybook help rm` shows"},
		{"remove", "daybook remove requires the ids of jobs, or --batch, or --queue"},
		{"get a b", "get takes ID, and 2 arguments were given"},
		{"watch", "watch needs JOB|BATCH|CLIENT/TYPE"},
		{"stats x", `stats takes no arguments, and "x" was given`},
		{"jobs --limit -1", "--limit is the number of jobs"},
		{"jobs --ids --json", "--ids and --json exclude each other"},
		{"jobs --fields status", "--fields is for --json only"},
		{"jobs --status done", "--status must be one of deferred, pending"},
		{"jobs --order first", "--order must be one of oldest, newest, updated"},
		{"batches --status done", `--status "done" is not one of in_progress`},
		{"help nosuch", `there is no command or topic "nosuch"`},
		{"help get nosuch", `there is no command or topic "get nosuch"`},
		{"journal", "dump, verify or give-up"},
		{"queues --client a/b", "--client"},
		{"queues delete a", "CLIENT/TYPE"},
		{"queues delete", "daybook queues delete needs CLIENT"},
		{"queues delete a b/c", "TYPE"},
		{"serve --metrics-queues 1001", "--metrics-queues"},
		{"serve --queue-idle 10s", "--queue-idle must be from 1m to 36600d, or 0, not 10s"},
		{"config serve -- --queue-idle 10s", "--queue-idle"},
		{"serve --runner-heartbeat 100ms", "--runner-heartbeat must be from 1s to 1h"},
		{"config serve -- --on-lost http://", "--on-lost: the URL http: has no host"},
		{"config serve -- --pprof 0.0.0.0:1", "--pprof"},
		{"config serve -- --listen 0.0.0.0:0", "--insecure"},
		{"config serve -- --log-level loud", "--log-level"},
		{"config serve -- --mdns on", "--mdns"},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := execute(t, "", strings.Fields(c.args)...)
			r.ends(t, terminal.ExitUsage, c.message)
		})
	}
	t.Run("serve with wrong addresses", func(t *testing.T) {
		for _, args := range [][]string{{"--pprof", "0.0.0.0:1"}, {"--pprof", "localhost"}, {"--allow-host", "a:1"}} {
			r := execute(t, "", append([]string{"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--init"}, args...)...)
			r.ends(t, terminal.ExitUsage)
		}
	})
	t.Run("a variable with a wrong value", func(t *testing.T) {
		t.Setenv("DAYBOOK_MAX_ATTEMPTS", "many")
		r := execute(t, "", "serve", "--data", t.TempDir())
		r.ends(t, terminal.ExitUsage, "DAYBOOK_MAX_ATTEMPTS")
	})
	t.Run("no data directory", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "missing")
		for _, verb := range [][]string{{"check"}, {"rebuild"}, {"journal", "dump"}, {"journal", "verify"}} {
			r := execute(t, "", append(verb, "--data", missing)...)
			r.ends(t, terminal.ExitNoData, "not a data directory")
			_, err := os.Stat(missing)
			testkit.Holds(t, err != nil, verb, "made the directory")
		}
	})
}

func TestHelp(t *testing.T) {
	text := ok(t, "help", "exit-codes")
	for _, e := range terminal.ExitCodes {
		testkit.Contains(t, text, fmt.Sprintf("%d  %s", e.Code, e.Meaning))
	}
	for _, flag := range []string{"--version", "-v"} {
		testkit.Equal(t, ok(t, flag), ok(t, "version"), flag)
	}
	text = ok(t, "version")
	testkit.Holds(t, strings.HasPrefix(text, "daybook dev (commit unknown, go1"), text)
	v := parsed[map[string]any](t, ok(t, "version", "--json"))
	testkit.Holds(t, v["version"] == "dev" && v["level"] == float64(job.Level), v)
	testkit.Contains(t, ok(t, "completion", "bash"), "complete")
}
