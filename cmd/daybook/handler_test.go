package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/cmd/daybook/internal/work"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// TestHandlerCommands: a stored handler is shown unchanged, and the kind of a handler follows from the name of its
// file.
func TestHandlerCommands(t *testing.T) {
	t.Parallel()
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	put := func(in string, args ...string) result {
		t.Helper()
		return execute(t, in, append([]string{"handler", "put", "--server", s.url}, args...)...)
	}
	const first, second = "def handle(payload, job):\n    return 1\n", "def handle(payload, job):\n    return 2\n"
	for _, c := range []struct{ text, want string }{{first, "square version 1\n"}, {first, "square version 1\n"}, {second, "square version 2\n"}} {
		testkit.Equal(t, put("", "square", file("square.py", c.text)).ends(t, terminal.ExitOK).out, c.want)
	}
	testkit.Equal(t, ok(t, "handler", "get", "square", "--server", s.url), second)
	got := ok(t, "handler", "history", "square", "--server", s.url)
	testkit.Equal(t, strings.Count(got, "stored"), 2, "versions:", got)
	for typ, args := range map[string][]string{"a": {file("a.sh", "handle() { :; }\n")}, "b": {file("b", "function handle() {}"), "--lang", "node"}} {
		put("", append([]string{typ}, args...)...).ends(t, terminal.ExitOK)
	}
	put(`{"kind":"http","url":"http://127.0.0.1:8080/"}`, "--client", "acme", "post", "-").ends(t, terminal.ExitOK)
	testkit.Equal(t, ok(t, "handler", "get", "post", "--client", "acme", "--server", s.url), `{"kind":"http","url":"http://127.0.0.1:8080/"}`+"\n")
	testkit.Contains(t, ok(t, "handler", "ls", "--server", s.url), "-       square  script", "acme    post    http")
	const body = "return payload\n"
	put("", "new", file("body.py", body)).ends(t, terminal.ExitUsage, "cannot be loaded", "--no-check", "handle")
	r := execute(t, "", "handler", "get", "new", "--server", s.url)
	testkit.Holds(t, r.code != terminal.ExitOK, "it was stored", r)
	testkit.Equal(t, put("", "new", file("body.py", body), "--no-check").ends(t, terminal.ExitOK).out, "new version 1\n")
	for name, r := range map[string]result{
		"a file of no known kind": put("", "x", file("x.bin", "")),
		"a wrong document":        put("{", "x", "-"),
		"a misspelt field":        put(`{"kind":"http","url":"http://127.0.0.1:8080/","timout_ms":5}`, "x", "-"),
		"two documents":           put(`{"kind":"http","url":"http://127.0.0.1:8080/"}{}`, "x", "-"),
		"a wrong manifest":        put("", "x", file("x.toml", "name = 1")),
		"a wrong type":            put("{}", "a b", "-"),
		"a long file":             put(strings.Repeat("x", int(maxHandlerFile)+1), "x", "-", "--lang", "sh"),
	} {
		testkit.Holds(t, r.code == terminal.ExitUsage && r.errs != "", name, r)
	}
	put("", "x", filepath.Join(dir, "none.py")).ends(t, terminal.ExitFile) // a missing file
	r = put(`{"kind":"unknown"}`, "x", "-")
	testkit.Holds(t, r.code != terminal.ExitOK, "a wrong kind", r)
	testkit.Equal(t, ok(t, "handler", "get", "square", "--version", "2", "--server", s.url), second)
	execute(t, "", "handler", "rm", "square", "--if-version", "1", "--server", s.url).ends(t, terminal.ExitRefused)
	for _, wrong := range [][]string{{"--if-version", "0"}, {"--if-version=-1"}, {"--if-version", "x"}, {"--by", strings.Repeat("é", 65)}, {"--by", "a\nb"}, {"--by", "\xff"}} {
		execute(t, "", append([]string{"handler", "rm", "square", "--server", s.url}, wrong...)...).ends(t, terminal.ExitUsage)
	}
	ok(t, "handler", "rm", "square", "--if-version", "2", "--by", "anna", "--server", s.url)
	got = ok(t, "handler", "history", "square", "--server", s.url)
	testkit.Holds(t, strings.Count(got, "gone") == 2 && strings.Contains(got, "anna"), got)
	execute(t, "", "handler", "get", "square", "--server", s.url).ends(t, terminal.ExitNotFound) // a removed handler
}

// TestFormsOfScripts: the scripts in the help of handler put are handlers.
func TestFormsOfScripts(t *testing.T) {
	t.Parallel()
	programs := map[string]string{handler.Node: "node", handler.Python: "python3", handler.PHP: "php", handler.Shell: "sh"}
	a := startAsked(t)
	help := ok(t, "help", "handler", "put")
	jobs := map[string]string{}
	for _, lang := range handler.Langs {
		_, script, found := strings.Cut(help, "\n  "+lang+" ")
		if !found {
			t.Errorf("the help has no script in %s", lang)
			continue
		}
		script, _, _ = strings.Cut(script, "\n")
		if _, err := exec.LookPath(programs[lang]); err != nil {
			t.Logf("%s is left out: %v", lang, err)
			continue
		}
		a.run(strings.TrimSpace(script), "handler", "put", lang, "-", "--lang", lang).ends(t, terminal.ExitOK)
		jobs[lang] = a.do("create", "--type", lang, "--max-attempts", "1", "text")
	}
	work := command("work", "--accept", "script", "--until-idle", "3s", "--server", a.s.url)
	out, err := work.CombinedOutput()
	testkit.NoError(t, err, out)
	for lang, id := range jobs {
		testkit.Contains(t, a.do("get", id), "output        TEXT\n")
		if t.Failed() {
			t.Log(lang)
		}
	}
}

// TestEndlessLoading: a script that loops while it loads is not stored, and does not block the command for its timeout_ms.
func TestEndlessLoading(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	before := work.TrialPatience
	work.TrialPatience = 200 * time.Millisecond
	t.Cleanup(func() { work.TrialPatience = before })
	a := startAsked(t)
	const endless = "while :; do :; done\nhandle() { printf %s \"$1\"; }"
	document, err := json.Marshal(map[string]any{"kind": "script", "lang": "sh", "source": endless, "options": map[string]any{"timeout_ms": 86_400_000}})
	testkit.NoError(t, err)
	r := a.run(string(document), "handler", "put", "spin", "-")
	r.ends(t, terminal.ExitUsage)
	testkit.Contains(t, r.errs, "it was still loading after 200ms, and was ended", "--no-check stores it", "into handle")
	a.run("", "handler", "get", "spin").ends(t, terminal.ExitNotFound)
	a.run(string(document), "handler", "put", "spin", "-", "--no-check").ends(t, terminal.ExitOK)
}
