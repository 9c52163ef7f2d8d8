package check

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// marker begins the line after the output of each command: the marker, the command's number and its exit code.
const marker = "\x1e"

// A command is a step of a page's script.
type command struct {
	line    int
	text    string
	want    string // the expected output
	compare bool
}

// A script has the files and commands of a page.
type script struct {
	commands []command
	files    []block // with titles; the command of a file copies it from the directory $FILES, where its name is its index
}

// newScript reads the blocks of a page. Blocks with notes are left out.
func newScript(p *page) (*script, error) {
	s := &script{}
	for _, b := range p.blocks {
		if b.note != "" {
			continue
		}
		where := fmt.Sprintf("%s:%d", p.path, b.line)
		switch {
		case b.title != "":
			s.commands = append(s.commands, command{line: b.line, text: fmt.Sprintf(
				`mkdir -p "$(dirname '%s')" && cp "$FILES/%d" '%s'`, b.title, len(s.files), b.title)})
			s.files = append(s.files, b)
		case b.language == "console":
			commands, err := transcript(b)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			s.commands = append(s.commands, commands...)
		case b.language == "sh":
			s.commands = append(s.commands, command{line: b.line, text: "set -e\n" + b.text + "set +e"})
		case b.language == "text" || b.language == "abnf" || b.language == "mermaid" || b.language == "json":
		case b.language == "":
			return nil, fmt.Errorf("%s: the block has no language; text is for what is not code", where)
		default:
			return nil, fmt.Errorf("%s: a block of %s needs a title or a note (doc.go)", where, b.language)
		}
	}
	for _, f := range s.files {
		if !s.uses(f) {
			return nil, fmt.Errorf("%s:%d: no command after the block names %s; name it, or write a note (doc.go)", p.path, f.line, f.title)
		}
	}
	return s, nil
}

// uses reports whether a command after a file contains the file's name or its folder's, whether another file contains the
// name, or whether a go command takes the whole folder.
func (s *script) uses(file block) bool {
	name, dir := path.Base(file.title), path.Dir(file.title)
	stem := strings.TrimSuffix(name, path.Ext(name))
	for _, other := range s.files {
		for _, text := range []string{name, "import " + stem + "\n", "from " + stem + " "} {
			if other.line != file.line && strings.Contains(other.text, text) {
				return true
			}
		}
	}
	for _, c := range s.commands {
		if c.line > file.line && (strings.Contains(c.text, name) || dir != "." && strings.Contains(c.text, dir) ||
			file.language == "go" && goCommand.MatchString(c.text)) {
			return true
		}
	}
	return false
}

var goCommand = regexp.MustCompile(`\bgo (run|build|vet|test) \.`)

// transcript divides a block into commands and their output.
func transcript(b block) ([]command, error) {
	var commands []command
	line := b.line
	for text := range strings.Lines(b.text) {
		if c, ok := strings.CutPrefix(text, "$ "); ok {
			commands = append(commands, command{line: line, text: strings.TrimSuffix(c, "\n"), compare: true})
		} else if len(commands) == 0 {
			return nil, errors.New(`the block does not begin with a command, which begins with "$ "`)
		} else if last := &commands[len(commands)-1]; last.want == "" && strings.HasPrefix(text, "> ") {
			last.text += "\n" + strings.TrimSuffix(text[2:], "\n")
		} else {
			last.want += text
		}
		line++
	}
	return commands, nil
}

// text returns the script for a shell. A line with the marker follows the output of each command.
func (s *script) text() string {
	var b strings.Builder
	b.WriteString("exec 2>&1\nset -o pipefail\n")
	for i, c := range s.commands {
		fmt.Fprintf(&b, "%s\nprintf '\\n%s%d %%d\\n' $?\n", c.text, marker, i)
	}
	return b.String()
}

// compare returns an error for each command whose output differs from the page, and for the first that failed or was not
// reached. The output of files and of sh commands is not compared.
func (s *script) compare(p *page, output string) (faults []error) {
	for i, c := range s.commands {
		got, rest, reached := strings.Cut(output, fmt.Sprintf("\n%s%d ", marker, i))
		at := fmt.Sprintf("%s:%d: %s", p.path, c.line, c.text)
		if !reached {
			return append(faults, fmt.Errorf("%s\nfailed or did not end; it printed\n%s", at, output))
		}
		code, rest, _ := strings.Cut(rest, "\n")
		output = rest
		if status, err := strconv.Atoi(code); err != nil || status != 0 {
			return append(faults, fmt.Errorf("%s\nfailed with exit code %s; it printed\n%s", at, code, got))
		}
		if c.compare && !pattern(c.want).MatchString(oneSpace(strings.TrimSpace(got))+"\n") {
			faults = append(faults, fmt.Errorf("%s\nprints\n%s\nand the page says\n%s", at, strings.TrimSpace(got), strings.TrimSpace(c.want)))
		}
	}
	return faults
}

// oneSpace replaces each run of spaces, as in the columns of tables, by one space.
func oneSpace(text string) string { return spaces.ReplaceAllString(text, " ") }

var spaces = regexp.MustCompile(` +`)

// pattern returns the expression for an output that ends with a newline. It expects each run of spaces as one space, and
// ignores spaces at the ends of lines.
func pattern(want string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	for line := range strings.SplitSeq(oneSpace(strings.TrimSpace(want)), "\n") {
		if line = strings.TrimRight(line, " "); line == "…" {
			b.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		line = strings.ReplaceAll(regexp.QuoteMeta(line), " … ", ` (?:[^\n]* )?`)
		b.WriteString(strings.ReplaceAll(line, "…", `[^\n]*`) + ` *\n`)
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String())
}
