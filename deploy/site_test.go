package deploy_test

import (
	"html"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestSite builds the documentation site, as `make site` does. The site has each page with all code blocks, each link
// leads to an existing page and heading, and nothing is loaded from other servers.
func TestSite(t *testing.T) {
	const mkdocs = "../bin/site-tools/python/bin/mkdocs"
	if _, err := os.Stat(mkdocs); err != nil {
		t.Skip("skipped: mkdocs is not installed: run `scripts/tools site`")
	}
	site := t.TempDir()
	build := exec.Command(mkdocs, "build", "--strict", "--config-file", "site/mkdocs.yml", "--site-dir", site)
	build.Env = append(os.Environ(), "NO_MKDOCS_2_WARNING=1")
	out, err := build.CombinedOutput()
	testkit.NoError(t, err, out)
	pages := map[string]string{} // by their paths in the site
	ids := map[string]map[string]bool{}
	testkit.NoError(t, filepath.WalkDir(site, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".html" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		at, err := filepath.Rel(site, name)
		if err != nil {
			return err
		}
		at = filepath.ToSlash(at)
		pages[at], ids[at] = string(text), map[string]bool{}
		for _, m := range regexp.MustCompile(` (?:id|name)="?([^" >]+)`).FindAllStringSubmatch(string(text), -1) {
			ids[at][html.UnescapeString(m[1])] = true
		}
		return nil
	}))
	testkit.NoError(t, filepath.WalkDir("../docs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".md" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		at, err := filepath.Rel("../docs", name)
		if err != nil {
			return err
		}
		at = strings.TrimSuffix(filepath.ToSlash(at), ".md") + ".html"
		if path.Base(at) == "README.html" {
			at = path.Join(path.Dir(at), "index.html")
		}
		page, found := pages[at]
		if !found {
			t.Errorf("the site lacks %s, the page of %s", at, name)
			return nil
		}
		blocks := strings.Count("\n"+string(text), "\n```") / 2
		shown := strings.Count(page, `<div class="highlight`) + strings.Count(page, `<pre class="mermaid`) + len(regexp.MustCompile(`<div class="language-[^"]*highlight`).FindAllString(page, -1))
		testkit.Holds(t, shown >= blocks, name, "has", blocks, "blocks of code, and", at, "shows", shown)
		return nil
	}))
	links := 0
	for at, page := range pages {
		if at == "404.html" {
			continue // its links start at the root of a web server
		}
		testkit.Holds(t, !strings.Contains(page, "<p>```") && !strings.Contains(page, "<p>|"), at, "shows the text of a block or a table")
		for _, m := range regexp.MustCompile(`<(\w+)[^>]*? (?:href|src)="?([^" >]+)`).FindAllStringSubmatch(page, -1) {
			tag, target := m[1], html.UnescapeString(m[2])
			u, err := url.Parse(target)
			if err != nil {
				t.Errorf("%s: %v", at, err)
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				testkit.Holds(t, tag == "a" || u.Scheme == "data", at, "loads", target)
				continue
			}
			links++
			to := at
			if u.Path != "" {
				to = path.Join(path.Dir(at), u.Path)
			}
			_, err = os.Stat(filepath.Join(site, to))
			testkit.Check(t, err, at, "has a link to", target, "which is not in the site")
			testkit.Holds(t, u.Fragment == "" || ids[to] == nil || ids[to][u.Fragment], at, "has a link to", target, "which", to, "has not")
		}
	}
	testkit.Holds(t, len(pages) >= 50 && links >= 1000, "the site has", len(pages), "pages and", links, "links")
	for _, script := range []string{"assets/mermaid.min.js", "assets/iframe-worker.js", "search/search_index.js"} {
		testkit.Holds(t, testkit.Must(os.Stat(filepath.Join(site, script)))(t).Size() != 0, "the site lacks", script)
	}
}
