//go:build unix

package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// A command of make on a page, in a code span or in a block: its target, and the variables that it sets.
var (
	makeInSpan   = regexp.MustCompile("`make ([a-z0-9-]+)([^`\n#]*)")
	makeInBlock  = regexp.MustCompile(`(?m)^(?:\$ )?make ([a-z0-9-]+)([^\n#]*)`)
	choice       = regexp.MustCompile(`\b(LANE|SET|PART)=([a-z-]+)`)
	makeVariable = regexp.MustCompile(`\b([A-Z_]+)=`)
)

// TestMakeTargets: pages name targets of make, such as the measurements of performance.md. These targets exist, and use
// the variables that the pages set.
func TestMakeTargets(t *testing.T) {
	root, pages := pages(t)
	makefile := testkit.Must(os.ReadFile(filepath.Join(root, "Makefile")))(t)
	commands := 0
	for _, p := range pages {
		text := testkit.Must(os.ReadFile(filepath.Join(root, p.path)))(t)
		found := makeInSpan.FindAllStringSubmatch(string(text), -1)
		for _, b := range p.blocks {
			found = append(found, makeInBlock.FindAllStringSubmatch(b.text, -1)...)
		}
		for _, m := range found {
			commands++
			recipe := recipeOf(string(makefile), m[1])
			if recipe == "" {
				t.Errorf("%s says %q, and the Makefile has no such target", p.path, m[0])
				continue
			}
			if named := choice.FindStringSubmatch(m[2]); named != nil { // LANE=crash is the variable lane.crash
				line := regexp.MustCompile(`(?m)^` + strings.ToLower(named[1]) + `\.` + named[2] + ` .*$`).FindString(string(makefile))
				if line == "" {
					t.Errorf("%s says %q, and the Makefile has no %s %s", p.path, m[0], strings.ToLower(named[1]), named[2])
				}
				recipe += line
			}
			for _, v := range makeVariable.FindAllStringSubmatch(m[2], -1) {
				testkit.Holds(t, regexp.MustCompile(`\$[({]`+v[1]+`\b`).MatchString(recipe), p.path, "says", m[0], "but its target does not use", v[1])
			}
		}
	}
	testkit.Holds(t, commands >= 50, "pages have only", commands, "commands of make")
}

// recipeOf returns the rule of a target, and the rules of the targets that it requires.
func recipeOf(makefile, target string) string {
	rule := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:([^#\n]*).*\n(?:\t.*\n)*`).FindStringSubmatch(makefile)
	if rule == nil {
		return ""
	}
	text := rule[0]
	for _, required := range strings.Fields(rule[1]) {
		text += recipeOf(makefile, required)
	}
	return text
}
