package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// someCommands returns the root of a few commands that have settings.
func someCommands() *cobra.Command {
	root := &cobra.Command{Use: "daybook"}
	for _, verb := range append(Sections(), "serve") {
		cmd := &cobra.Command{Use: verb, Run: func(*cobra.Command, []string) {}}
		cmd.Flags().String("type", "", "")
		cmd.Flags().StringSlice("allow-host", nil, "")
		cmd.Flags().Int("max-attempts", 1, "")
		cmd.Flags().Bool("allow-clock-ahead", false, "")
		root.AddCommand(cmd)
	}
	return root
}

// TestHostileFiles: no file of 1 MiB takes long to read.
func TestHostileFiles(t *testing.T) {
	fill := func(text string) string { return strings.Repeat(text, (maxConfigBytes-100)/len(text)) }
	var many, inline strings.Builder
	for i := 0; many.Len() < maxConfigBytes*7/10; i++ {
		fmt.Fprintf(&many, "k%d= 1\n", i)
		fmt.Fprintf(&inline, "k%d=1,", i)
	}
	for _, text := range []string{
		"a=" + fill("["), "a=" + fill("{a="), many.String(), "a={" + inline.String() + "k=1}", "[x]\n" + many.String(), fill("a.") + "a=1", fill("[[a]]\n"), "a='''" + fill("=\n") + "'''",
		fill("#\n"),
	} {
		start := time.Now()
		_, _, err := parseConfig([]byte(text)) // a library that takes quadratic time would need minutes
		t.Logf("%.20q took %s: %.80s", text, time.Since(start), fmt.Sprint(err))
	}
}

// FuzzConfig: a file is read or refused, whatever its contents.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"listen = '127.0.0.1:1'\nmax-attempts = 7\nhost = [\"a\", 'b,c', \"d\\\"e\"]\nallow-clock-ahead = true\n", "[section]\nx = 1\n",
		"a.b = 1\n'quoted key' = \"\"\"\nlines\n\"\"\"\n", "[[a]]\nb = 1\n[[a]]\nb = { c = 2026-01-01 }\n", "\ufeffa = 1",
		// found by this test
		"0=10000000#00000000000000000000000000000000", "0=''\n1=0\n0=[\"\",'',0 0\n0\n", "\n\n\n\n\n\n\n0\n\n0", "\"0000000000000000",
		"                ", "0=0000-00 0 0", "#\x880000000", "0.       0", "0=0000- 0", "00=0\n0=0", "        ", "0=0    ", "\"\x1d",
		"0=0xaa", "0\n0\n", "0=0xa", "0=0  ", "\"\\0", "\"\n", "0={!", "[ 0", "[  ", " ",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { readOrRefused(t, text) })
}

// readOrRefused fails if an error of a file, or a key in it, has no place.
func readOrRefused(t *testing.T, text []byte) {
	values, lines, err := parseConfig(text)
	if err != nil {
		testkit.Holds(t, strings.HasPrefix(err.Error(), ":"), err, "does not say where")
		return
	}
	last := 1 + bytes.Count(text, []byte("\n"))
	for key := range values {
		line := lines[linesKey([]string{key})]
		testkit.Holds(t, line >= 1 && line <= last, key, "is in line", line, "of", last)
	}
	file := configFile{path: "x", values: values, lines: lines}
	config := configuration{files: []*configFile{&file}}
	_, err = config.settings(&file, someCommands())
	testkit.Holds(t, err == nil || errors.As(err, new(terminal.UsageError)) && strings.HasPrefix(err.Error(), "configuration x:"), err)
}

// TestOnLostHidden: the command for lost runners is printed without its arguments, which may be secrets.
func TestOnLostHidden(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "notify": "notify", "curl -u bob:hunter2 https://h/x": "curl …", "https://h": "https://h", "https://h/x?token=ABC": "https://h …",
		"https://h?token=ABC": "https://h …", "https://bob:hunter2@h": "https://h …",
	} {
		testkit.Equal(t, withoutArguments(text), want, text, "is printed as")
	}
}
