package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/cmd/daybook/internal/work"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner"
	"github.com/daybookq/daybook/runner/program"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/webhook"
)

// configuredWork reads the file of a runner as the command does.
func configuredWork(cmd *cobra.Command, path string) (*work.File, error) {
	cmd.InheritedFlags() // as a parsed command line has them
	if err := cmd.Flags().Set("config", path); err != nil {
		return nil, err
	}
	if err := config.Configure(cmd, allCommands); err != nil {
		return nil, err
	}
	return work.ReadFile(cmd)
}

// parsedTables returns the tables of a file in TOML.
func parsedTables(text, dir string) (*work.File, error) {
	values := map[string]any{}
	if err := toml.Unmarshal([]byte(text), &values); err != nil {
		return nil, err
	}
	return work.Parse(values, dir)
}

// TestWorkConfig: the file of a runner has handlers of each kind, and the values of flags.
func TestWorkConfig(t *testing.T) {
	dir := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "resize.py"), []byte("def handle(payload, job): return payload"), 0o600))
	path := filepath.Join(dir, "work.toml")
	testkit.NoError(t, os.WriteFile(path, []byte(`
server = "http://127.0.0.1:1"
concurrency = 7
types = ["upper", "resize"]
until_idle = "2s"
http-allow = ["10.0.0.0/8"]

[interpreters]
python = "/usr/bin/python3"

[handlers.upper]
kind = "exec"
argv = ["tr", "a-z", "A-Z"]
exit_codes = { 3 = "failed" }
frames = "lines"
options = { concurrency = 2, timeout_ms = 5000 }

[handlers.resize]
kind = "script"
lang = "python"
source_file = "resize.py"
types = ["resize", "crop"]

[containers]
cpus = 2
memory_bytes = 100000000

[wasi]
memory_bytes = 100000000
timeout_ms = 5000
cache_bytes = 1000

[handlers.sums]
kind = "container"
images = ["docker.io/library/busybox:*"]
exit_codes = { 3 = "failed" }

[handlers.mail]
kind = "http"
url = "https://example.com/mail"
[handlers.mail.options]
batch = true
`), 0o600))
	cmd := config.CommandNamed(allCommands(), "work")
	testkit.NoError(t, cmd.ParseFlags([]string{"--concurrency", "3"}))
	file := testkit.Must(configuredWork(cmd, path))(t)
	for flag, want := range map[string]string{"server": "http://127.0.0.1:1", "concurrency": "3", "types": "[upper,resize]", "until-idle": "2s", "http-allow": "[10.0.0.0/8]"} {
		testkit.Equal(t, cmd.Flags().Lookup(flag).Value.String(), want, "--", flag)
	}
	upper, resize, mail := file.Handlers["upper"], file.Handlers["resize"], file.Handlers["mail"]
	testkit.MustHold(t, upper != nil && resize != nil && mail != nil && file.Interpreters["python"] == "/usr/bin/python3", file)
	if sums := file.Handlers["sums"]; sums.Images.None() || sums.Program.ExitCodes["3"] != "failed" || file.Containers != (work.ContainersTable{CPUs: 2, MemoryBytes: 100000000}) {
		t.Errorf("%+v, %+v", sums, file.Containers)
	}
	testkit.Equal(t, testkit.Must(file.Wasi.Limits())(t), runner.WASILimits{MemoryBytes: 100000000, Timeout: 5 * time.Second, CacheBytes: 1000})
	testkit.Holds(t, upper.Document.Kind == handler.Exec && upper.Program.Argv[0] == "tr" && upper.Program.ExitCodes["3"] == "failed" &&
		upper.Program.Frames == "lines" && upper.Document.Options.Concurrency == 2 && upper.Types == nil, upper)
	testkit.Equal(t, resize.Document.Source, "def handle(payload, job): return payload")
	testkit.Equal(t, len(*resize.Types), 2)
	testkit.Holds(t, mail.Document.URL == "https://example.com/mail" && mail.Document.Options.Batch, mail)
}

// TestExampleOfContainerConfig: the runner reads the handler in docs/reference/containers.md.
func TestExampleOfContainerConfig(t *testing.T) {
	text := testkit.Must(os.ReadFile("../../docs/reference/containers.md"))(t)
	_, example, _ := strings.Cut(string(text), "TestExampleOfContainerConfig -->\n\n```toml\n")
	example, _, _ = strings.Cut(example, "```")
	path := filepath.Join(t.TempDir(), "work.toml")
	testkit.NoError(t, os.WriteFile(path, []byte(example), 0o600))
	file := testkit.Must(configuredWork(config.CommandNamed(allCommands(), "work"), path))(t)
	if h := file.Handlers["sums"]; h == nil || h.Document.Kind != handler.Container || h.Images == nil || h.Document.Options.Concurrency != 2 {
		t.Errorf("the handler is %+v", h)
	}
}

// TestExampleOfWorkConfig: the runner accepts the file in docs/reference/runners.md, if the machine has its interpreters.
func TestExampleOfWorkConfig(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/runners.md")
	testkit.NoError(t, err)
	_, example, _ := strings.Cut(string(text), "TestExampleOfWorkConfig -->\n\n```toml\n")
	example, _, _ = strings.Cut(example, "```")
	dir := t.TempDir()
	path := filepath.Join(dir, "work.toml")
	for name, text := range map[string]string{path: example, filepath.Join(dir, "report.py"): "def handle(payload, job): return payload"} {
		testkit.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	cmd := config.CommandNamed(allCommands(), "work")
	file := testkit.Must(configuredWork(cmd, path))(t)
	got := testkit.Must(cmd.Flags().GetStringToString("label"))(t)
	testkit.Holds(t, got["zone"] == "a" && got["disk"] == "ssd", "the labels are", got)
	list := testkit.Must(cmd.Flags().GetStringSlice("http-allow"))(t)
	allow := testkit.Must(webhook.ParseAllow(list))(t)
	box := testkit.Must(sandbox.New(sandbox.Off))(t)
	kinds := map[string]int{}
	for name, h := range file.Handlers {
		kinds[h.Document.Kind]++
		switch h.Document.Kind {
		case handler.HTTP:
			web := webhook.Settings{Allow: allow}
			err = web.CheckURL(h.Document.URL)
		case handler.Exec:
			_, err = program.New(box, h.Program, *h.Document.Options)
		default:
			err = h.Document.Check()
		}
		testkit.Check(t, err, name)
	}
	testkit.Equal(t, len(kinds), len(handler.Kinds), "the example has handlers of the kinds")
}

// TestWorkConfigErrors: errors name the mistake, and its place.
func TestWorkConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"\nconcurency = 1":    `:2: there is no setting "concurency" (did you mean concurrency?)`,
		"config = \"x\"":      `:1: there is no setting "config"`,
		"concurrency = \"x\"": ":1: concurrency: ",
		"a = ":                ":1: ",
		"[handlers.x]\nkind = \"exec\"\nargs = [\"a\"]": "handlers.x.args is not known",
		"[handlers.x]\nkind = \"exec\"\nargv = 5":       "handlers.x.argv: must be a list of texts",
		"[handler.x]\nkind = \"exec\"":                  "[handler] is not known; the tables are",
		"[handlers.a]\nkind = \"exec\"\nargv = [\"a\"]\ntypes = [\"b\"]\n[handlers.b]\nkind = \"exec\"\nargv = [\"a\"]": "handlers.a and handlers.b both run the type b",
		"[handlers.x]\nkind = \"wasm\"":                                            "handlers.x: kind must be one of exec",
		"[handlers.x]\nkind = \"script\"\nlang = \"perl\"\nsource = \"x\"":         "handlers.x: lang must be",
		"[handlers.\"a b\"]\nkind = \"exec\"":                                      "handlers.a b: its name may hold only",
		"[handlers.x]\nkind = \"exec\"\nargv = [\"a\"]\ntypes = [\"a b\"]":         "types may hold only",
		"[handlers.x]\nkind = \"script\"\nlang = \"sh\"\nsource_file = \"none\"":   "source_file: ",
		"[handlers.x]\nkind = \"exec\"\nargv = [\"a\"]\noptions = { weight = -1 }": "options.weight must be",
		"[handlers.x]\nkind = \"container\"\nimages = [\"busybox\"]":               "handlers.x: images: the image",
		"[containers]\nprivileged = true":                                          "containers.privileged is not known",
		"[wasi]\nmemory = 1":                                                       "wasi.memory is not known",
		"[wasi]\ntimeout_ms = \"1h\"":                                              "wasi.timeout_ms: must be a whole number",
		"[handlers.x]\nkind = \"exec\"\nargv = [\"a\"]\noptions = 3":               "handlers.x.options: must be a table",
		"[interpreters]\nperl = \"x\"":                                             "interpreters.perl: ",
	} {
		path := writeFile(t, t.TempDir(), "work.toml", text)
		_, err := configuredWork(config.CommandNamed(allCommands(), "work"), path)
		testkit.Holds(t, err != nil && exitCode(err) == terminal.ExitUsage && strings.Contains(err.Error(), path) &&
			strings.Contains(err.Error(), want), text, err, "want", want)
	}
}

// TestKeysOfKinds: each key of a handler is refused for the kinds that do not have it, with any value.
func TestKeysOfKinds(t *testing.T) {
	of := map[string]string{ // the kinds that have a key
		"argv": "exec", "shell": "exec", "dir": "exec", "frames": "exec", "exit_codes": "exec and container", "chain_types": "exec and http and script", "log_bytes": "exec", "open_files": "exec", "processes": "exec", "file_bytes": "exec",
		"env": "exec and script", "network": "exec and script", "read_only": "exec and script", "read_write": "exec and script",
		"url": "http", "lang": "script", "source": "script", "source_file": "script", "before": "script", "before_each": "script", "after_each": "script", "eid": "script",
		"images":   "container",
		"manifest": "wasi", "name": "wasi", "namespace": "wasi", "version": "wasi", "description": "wasi", "binary": "wasi", "required_extensions": "wasi", "required_permissions": "wasi",
	}
	whole := map[string]string{
		handler.Exec: `argv = ["true"]`, handler.HTTP: `url = "http://127.0.0.1/"`, handler.Script: "lang = \"sh\"\nsource = \"x\"", handler.Container: "",
		handler.WASI: `binary = "` + strings.Repeat("0", 64) + `"`,
	}
	seen := 0
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		for n := range typ.NumField() {
			field := typ.Field(n)
			if field.Anonymous {
				walk(field.Type)
				continue
			}
			key := field.Tag.Get("toml")
			if slices.Contains([]string{"-", "kind", "types", "options"}, key) {
				continue
			}
			seen++
			kinds, ok := of[key]
			testkit.Holds(t, ok, "the test does not know the key", key)
			if field.Type.Kind() == reflect.Pointer {
				field.Type = field.Type.Elem()
			}
			zero := map[reflect.Kind]string{reflect.String: `""`, reflect.Bool: "false", reflect.Int: "0", reflect.Int64: "0", reflect.Slice: "[]", reflect.Map: "{}"}[field.Type.Kind()]
			for _, kind := range handler.Kinds {
				want := fmt.Sprintf("handlers.x: %s must not be given for a handler of kind %s; it is for %s", key, kind, kinds)
				text := fmt.Sprintf("[handlers.x]\nkind = %q\n%s\n%s = %s", kind, whole[kind], key, zero)
				if strings.Contains(kinds, kind) {
					if strings.Contains(whole[kind], key+" =") {
						text = fmt.Sprintf("[handlers.x]\nkind = %q\n%s", kind, whole[kind])
					}
					want = "<nil>"
				}
				_, err := parsedTables(text, t.TempDir())
				testkit.Equal(t, fmt.Sprint(err), want, text)
			}
		}
	}
	walk(reflect.TypeFor[work.HandlerTable]())
	testkit.Equal(t, seen, len(of))
}

// TestManifestInConfig: a handler of kind wasi has the keys of a manifest, or names its file. Paths of binaries are
// relative to the file that has them.
func TestManifestInConfig(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.wasm": "module a", "guests/b.wasm": "module b", "guests/b.toml": "name = \"b-1\"\nbinary = \"b.wasm\"\nrequired_permissions = [\"http:*\"]",
		"guests/bad.toml": "binary = \"b.wasm\"\nurl = \"x\"", "guests/missing.toml": "binary = \"none.wasm\"", "guests/empty.toml": "",
	} {
		path := filepath.Join(dir, name)
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	address := strings.Repeat("0", 64)
	text := "[handlers.a]\nkind = \"wasi\"\nbinary = \"a.wasm\"\nrequired_extensions = [\"x\"]\noptions = { memory_bytes = 33554432 }\n" +
		"[handlers.b]\nkind = \"wasi\"\nmanifest = \"guests/b.toml\"\noptions = { timeout_ms = 1000 }\n[handlers.c]\nkind = \"wasi\"\nbinary = \"" + address + "\""
	file := testkit.Must(parsedTables(text, dir))(t)
	sum := func(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
	a, b, c := file.Handlers["a"], file.Handlers["b"], file.Handlers["c"]
	testkit.Holds(t, a.Binary == filepath.Join(dir, "a.wasm") && a.Document.Binary == sum("module a") &&
		a.Document.RequiredExtensions[0] == "x" && a.Document.Options.MemoryBytes == 32<<20, a)
	testkit.Holds(t, b.Binary == filepath.Join(dir, "guests", "b.wasm") && b.Document.Binary == sum("module b") &&
		b.Document.Name == "b-1" && b.Document.RequiredPermissions[0] == "http:*" && b.Document.Options.TimeoutMs == 1000, b)
	testkit.Equal(t, c.Binary, "")
	testkit.Equal(t, c.Document.Binary, address)
	for keys, want := range map[string]string{
		"manifest = \"guests/b.toml\"\nname = \"x\"":          "name must not be given together with manifest",
		"manifest = \"none.toml\"":                            "manifest: open ",
		"manifest = \"guests/bad.toml\"":                      "url is no key of a manifest",
		"manifest = \"guests/missing.toml\"":                  "binary: neither the address of a blob nor a file: open ",
		"manifest = \"guests/empty.toml\"":                    "binary is missing",
		"binary = \"guests\"":                                 "no regular file",
		"name = \"x\"":                                        "binary is missing",
		"binary = \"a.wasm\"\nrequired_permissions = [\"x\"]": "required_permissions: \"x\" is no permission",
		"binary = \"a.wasm\"\noptions = { idle_ms = 1000 }":   "options.idle_ms is for handlers of kind script",
	} {
		_, err := parsedTables("[handlers.x]\nkind = \"wasi\"\n"+keys, dir)
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), want), keys, err, "want", want)
	}
}

// TestGrantsInConfig: a script and a program of the file get the env, network, read_only and read_write of their
// tables.
func TestGrantsInConfig(t *testing.T) {
	const keys = "\nenv = { A = \"b\" }\nnetwork = true\nread_only = [\"/etc\"]\nread_write = [\"/tmp\"]"
	file, err := parsedTables("[handlers.s]\nkind = \"script\"\nlang = \"sh\"\nsource = \"x\""+keys+"\n[handlers.e]\nkind = \"exec\"\nargv = [\"true\"]"+keys, "")
	testkit.NoError(t, err)
	want := sandbox.Grants{Env: map[string]string{"A": "b"}, Access: sandbox.Access{Network: true, ReadOnly: []string{"/etc"}, ReadWrite: []string{"/tmp"}}}
	for name, h := range file.Handlers {
		testkit.DeepEqual(t, h.Program.Grants, want, name)
	}
}

// TestTooManySlots: a handler of the file that could never run ends the command with the status of usage errors.
func TestTooManySlots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "work.toml")
	testkit.NoError(t, os.WriteFile(path, []byte("concurrency = 2\n[handlers.big]\nkind = \"exec\"\nargv = [\"true\"]\noptions = { slots = 3 }"), 0o600))
	execute(t, "", "work", "--server", "http://127.0.0.1:1", "--config", path).ends(t, terminal.ExitUsage, "handler big: options.slots is 3, and the runner has 2 slots")
}

// TestWorkWaiting: a runner that ends because it was idle names the queues whose jobs it did not get.
func TestWorkWaiting(t *testing.T) {
	s := serving(t, t.TempDir())
	ok(t, "create", "--type", "count", "--server", s.url, "x")
	ok(t, "create", "--type", "paused", "--server", s.url, "x")
	ok(t, "pause", "default/paused", "--server", s.url)
	args := []string{"work", "--accept", "http", "--sandbox", "off", "--until-idle", "100ms", "--server", s.url}
	execute(t, "", args...).ends(t, 0, `"queues":"default/count (1 job)"`)
	execute(t, "", append(args, "--types", "other")...).ends(t, 0).lacks(t, "jobs wait")
}
