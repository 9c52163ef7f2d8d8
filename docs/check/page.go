package check

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// A page is a Markdown file.
type page struct {
	path    string // from the root of the repository, with slashes
	blocks  []block
	links   []link
	anchors map[string]bool // of the headings and of <a id="…">
}

// A block is a fenced block of code.
type block struct {
	line     int // of its first line of code, from 1
	language string
	title    string // the file's name, or ""
	heading  string // the text of the heading above it
	note     string // of the comment before it: the text after "tested by:", "checked by:" or "not run:"
	tested   bool   // it is a note "tested by:"
	checked  bool   // it is a note "checked by:"
	request  string // the method and path, if the comment before it says that it is a request
	answer   string // likewise, for an answer
	text     string
}

// A link leads to a file or to an anchor. Links to other sites are not listed.
type link struct {
	line   int
	path   string // from the root of the repository; of the page itself if the link has only an anchor
	anchor string // without #, or ""
}

var (
	titleOption = regexp.MustCompile(`title="([^"]+)"`)
	noteComment = regexp.MustCompile(`^<!-- (tested by|checked by|not run|request of|answer of): (.+) -->$`)
	anchorTag   = regexp.MustCompile(`<a id="([^"]+)"`)
)

// readPage reads the page at path, which is relative to root.
func readPage(root, path string) (*page, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		return nil, err
	}
	p := &page{path: path, anchors: map[string]bool{}}
	for _, m := range anchorTag.FindAllSubmatch(source, -1) {
		p.anchors[string(m[1])] = true
	}
	line := func(offset int) int { return 1 + bytes.Count(source[:offset], []byte("\n")) }
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	at := 0 // the line of the block around the current node
	heading := ""
	err = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if n.Type() == ast.TypeBlock && n.Lines().Len() > 0 {
			at = line(n.Lines().At(0).Start)
		}
		switch n := n.(type) {
		case *ast.Heading:
			heading = plainText(n, source)
			p.addAnchor(heading)
		case *ast.Link:
			return ast.WalkContinue, p.addLink(string(n.Destination), at)
		case *ast.Image:
			return ast.WalkContinue, p.addLink(string(n.Destination), at)
		case *ast.FencedCodeBlock:
			b := block{line: at, heading: heading, language: string(n.Language(source)), text: string(n.Lines().Value(source))}
			if n.Info != nil {
				if m := titleOption.FindSubmatch(n.Info.Segment.Value(source)); m != nil {
					b.title = string(m[1])
				}
			}
			if before, ok := n.PreviousSibling().(*ast.HTMLBlock); ok {
				if m := noteComment.FindSubmatch(bytes.TrimSpace(before.Lines().Value(source))); m != nil {
					switch value := string(m[2]); string(m[1]) {
					case "request of":
						b.request = value
					case "answer of":
						b.answer = value
					default:
						b.tested, b.checked, b.note = string(m[1]) == "tested by", string(m[1]) == "checked by", value
					}
				}
			}
			p.blocks = append(p.blocks, b)
		case *ast.CodeBlock:
			return ast.WalkStop, fmt.Errorf("%s:%d: the block of code is indented; use a fence with a language, which is tested", path, at)
		}
		return ast.WalkContinue, nil
	})
	return p, err
}

// plainText returns the text of a heading without its markup.
func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// addAnchor adds the anchor that code hosts give a heading: its letters, digits, hyphens and underscores in lower case,
// with a hyphen for each space. If the page already has this anchor, addAnchor appends a number.
func (p *page) addAnchor(heading string) {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	name := anchor
	for i := 1; p.anchors[name]; i++ {
		name = fmt.Sprintf("%s-%d", anchor, i)
	}
	p.anchors[name] = true
}

func (p *page) addLink(destination string, line int) error {
	if strings.Contains(destination, "://") || strings.HasPrefix(destination, "mailto:") {
		return nil
	}
	path, anchor, _ := strings.Cut(destination, "#")
	if strings.HasPrefix(path, "/") {
		return fmt.Errorf("%s:%d: the link %s is not relative", p.path, line, destination)
	}
	target := p.path
	if path != "" {
		target = filepath.ToSlash(filepath.Join(filepath.Dir(filepath.FromSlash(p.path)), filepath.FromSlash(path)))
	}
	if target == ".." || strings.HasPrefix(target, "../") {
		return fmt.Errorf("%s:%d: the link %s leads out of the repository", p.path, line, destination)
	}
	p.links = append(p.links, link{line, target, anchor})
	return nil
}
