package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestTranscript: a block is divided into commands, their continuations and their outputs.
func TestTranscript(t *testing.T) {
	commands := testkit.Must(transcript(block{text: "$ cat <<E\n> one\n> E\none\n$ true\n"}))(t)
	testkit.Holds(t, len(commands) == 2 && commands[0].text == "cat <<E\none\nE" && commands[0].want == "one\n" &&
		commands[1].text == "true" && commands[1].want == "", commands)
	testkit.Fails(transcript(block{text: "output\n"}))(t)
}

// TestPattern: which outputs a pattern matches.
func TestPattern(t *testing.T) {
	for _, c := range []struct {
		want, got string
		match     bool
	}{
		{"", "", true},
		{"", "x", false},
		{"a\nb\n", "a\nb", true},
		{"a\nb\n", "a", false},
		{"a …\n", "a b c", true},
		{"a …\n", "a b\nc", false},
		{"a … b\n", "a     b", true},
		{"a … b\n", "a x y b", true},
		{"a … b\n", "ab", false},
		{"a\n…\nz\n", "a\nz", true},
		{"a\n…\nz\n", "a\nb\nc\nz", true},
		{"a\n…\n", "a", true},
		{"a\n…\n", "a\nb\nc", true},
		{"…\nz\n", "y\nx", false},
		{"a.c\n", "abc", false},
	} {
		testkit.Equal(t, pattern(c.want).MatchString(oneSpace(strings.TrimSpace(c.got))+"\n"), c.match, c.want, "matches", c.got)
	}
}

// TestCompare: compare finds a wrong output, a command that fails, and a command that is not reached.
func TestCompare(t *testing.T) {
	p := &page{path: "p.md"}
	s := &script{commands: []command{{text: "echo a", want: "a\n", compare: true}, {text: "make"}}}
	for output, want := range map[string]string{
		"a\n\n\x1e0 0\nb\n\n\x1e1 0\n":  "",
		"b\n\n\x1e0 0\n\n\x1e1 0\n":     "the page says",
		"a\n\n\x1e0 0\nno\n\n\x1e1 2\n": "exit code 2",
		"a\n\n\x1e0 0\nno\n":            "did not end",
	} {
		var got []string
		for _, err := range s.compare(p, output) {
			got = append(got, err.Error())
		}
		text := strings.Join(got, "\n")
		testkit.Holds(t, (want != "" || text == "") && strings.Contains(text, want), output, text)
	}
}

// TestFileIsUsed: a file of a page is refused if no command after it uses the file.
func TestFileIsUsed(t *testing.T) {
	file := block{line: 5, title: "config/a.toml", language: "toml", text: "a = 1\n"}
	for command, ok := range map[string]bool{"cat config/a.toml": true, "daybook --config-dir config": true, "cat b.toml": false} {
		_, err := newScript(&page{path: "p.md", blocks: []block{file, {line: 9, language: "sh", text: command + "\n"}}})
		testkit.Equal(t, err == nil, ok, command, err)
		_, err = newScript(&page{path: "p.md", blocks: []block{{line: 1, language: "sh", text: command + "\n"}, file}})
		testkit.Holds(t, err != nil, command, "before the file: no error")
	}
}

// TestIndentedCode: a block without a fence is refused, since its language is unknown.
func TestIndentedCode(t *testing.T) {
	root := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(root, "p.md"), []byte("# T\n\nText:\n\n    daybook serve\n"), 0o600))
	testkit.Fails(readPage(root, "p.md"))(t, "p.md:5: ")
}

// TestSteps: a test that follows a page gets the blocks without a note and the blocks with its note, including the files.
func TestSteps(t *testing.T) {
	root := t.TempDir()
	text := "# T\n\n```toml title=\"a.toml\"\na = 1\n```\n\n<!-- tested by: deploy TestA -->\n```sh\nmake\n```\n\n<!-- tested by: deploy TestB -->\n```sh\nfalse\n```\n\n" +
		"<!-- not run: no reason -->\n```sh\nfalse\n```\n\n```console\n$ cat a.toml\na = …\n```\n"
	testkit.NoError(t, os.WriteFile(filepath.Join(root, "p.md"), []byte(text), 0o600))
	steps := testkit.Must(Steps(root, "p.md", "deploy TestA"))(t)
	testkit.MustEqual(t, len(steps), 3)
	s := steps[0]
	testkit.Holds(t, s.File == "a.toml" && s.Text == "a = 1\n" && s.Command == "", s)
	s = steps[1]
	testkit.Holds(t, s.Command == "make\n" && s.Prints("anything"), s)
	s = steps[2]
	testkit.Holds(t, s.Command == "cat a.toml" && s.Prints("a = 1\n") && !s.Prints("b = 1\n") && s.Line == 23, s)
}
