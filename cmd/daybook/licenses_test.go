package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

var rewriteLicenses = flag.Bool("rewrite-licenses", false, "write licenses.txt again, after modules have changed")

// licenceFile matches the names of files with licences and notices. Some modules have licences of copied code in the
// folder licenses.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)(\..*)?$`)

// apacheTerms are the sections of the Apache License, which every text under it repeats.
var apacheTerms = regexp.MustCompile(`(?s)1\. Definitions\..*END OF TERMS AND CONDITIONS`)

// words returns a text without its line breaks and indents.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestLicenses: the binary has the notices of the modules that it is built from.
func TestLicenses(t *testing.T) {
	var want bytes.Buffer
	text := testkit.Must(os.ReadFile("../../LICENSE"))(t)
	terms := words(apacheTerms.FindString(string(text)))
	fmt.Fprintf(&want, "Daybook is under the Apache License, version 2.0:\n\n%s\n", bytes.TrimRight(text, "\n"))
	modules := map[string]string{}                                                                   // directories of modules, by module
	for _, system := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"} { // the same text for each system of a release
		goos, arch, _ := strings.Cut(system, "/")
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", ".")
		list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
		out, err := list.Output()
		testkit.NoError(t, err, out)
		for line := range strings.Lines(string(out)) {
			if path, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				modules[path] = dir
			}
		}
	}
	root := testkit.Must(exec.Command("go", "env", "GOROOT").Output())(t)
	modules["Go's standard library and runtime"] = strings.TrimSpace(string(root))
	modules["Swagger UI, in the page of the API"] = "testdata/swagger-ui"
	var names []string
	for name := range modules {
		names = append(names, name)
	}
	slices.Sort(names)
	var texts []string
	of := map[string][]string{} // modules with a text
	for _, name := range names {
		found := 0
		for _, pattern := range []string{"*", "licenses/*"} {
			files := testkit.Must(filepath.Glob(filepath.Join(modules[name], pattern)))(t)
			for _, file := range files {
				if info, err := os.Stat(file); err != nil || info.IsDir() || pattern == "*" && !licenceFile.MatchString(filepath.Base(file)) {
					continue
				}
				data := testkit.Must(os.ReadFile(file))(t)
				found++
				text := apacheTerms.ReplaceAllStringFunc(string(bytes.TrimSpace(data)), func(own string) string {
					if words(own) != terms {
						return own
					}
					return "[sections 1 to 9, as in the license of Daybook, above]"
				})
				if of[text] == nil {
					texts = append(texts, text)
				}
				of[text] = append(of[text], fmt.Sprintf("%s (%s)", name, filepath.Base(file)))
			}
		}
		testkit.Holds(t, found != 0, name, "no licence in", modules[name])
	}
	for _, text := range texts {
		fmt.Fprintf(&want, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 100), strings.Join(of[text], "\n"), text)
	}
	if *rewriteLicenses {
		testkit.NoError(t, os.WriteFile("licenses.txt", want.Bytes(), 0o644))
		return
	}
	testkit.Holds(t, notices == want.String(),
		"licenses.txt is not what the modules of the build say; write it again with: go test ./cmd/daybook -run TestLicenses -rewrite-licenses")
	testkit.Equal(t, ok(t, "licenses"), notices, "daybook licenses prints")
}
