package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// configured parses a command line of serve with a configuration file, as serve does.
func configured(t *testing.T, text string, args ...string) (out string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "daybook.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetArgs(append([]string{"serve", "--config", path, "--print-config"}, args...))
	err = root.Execute()
	return strings.ReplaceAll(b.String(), path, "FILE"), err
}

// TestConfig: a flag has precedence over its variable, and the variable over the file. --print-config prints all
// settings, and its output is a valid file.
func TestConfig(t *testing.T) {
	t.Setenv("DAYBOOK_RETENTION", "2d")
	t.Setenv("DAYBOOK_LISTEN", "127.0.0.1:2")
	file := "listen = '127.0.0.1:1' # both others have it\nretention = \"1d\"\nmax-attempts = 7\nallow-host = [\"a.example\", \"b.example\"]\nallow-clock-ahead = true\njournal-retain = \"10G\"\n"
	out, err := configured(t, file, "--listen", "127.0.0.1:3")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"listen = '127.0.0.1:3' # command line", "retention = '2d' # DAYBOOK_RETENTION", "max-attempts = 7 # FILE",
		"allow-host = ['a.example', 'b.example'] # FILE", "allow-clock-ahead = true # FILE", "log-level = 'info' # default", "journal-retain = '10737418240' # FILE",
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	again, err := configured(t, out)
	if err != nil {
		t.Fatalf("what was printed is no file: %v", err)
	}
	var first, second map[string]any
	if err := toml.Unmarshal([]byte(out), &first); err != nil {
		t.Fatal(err)
	}
	if err := toml.Unmarshal([]byte(again), &second); err != nil {
		t.Fatal(err)
	}
	first["listen"] = "127.0.0.1:2" // from the environment, which has precedence over the file
	if fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("printed and read again:\n%v\n%v", first, second)
	}
}

func TestConfigRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"unknown key":       {"max-attempts = 1\nlisten_on = 'x'\n", `FILE:2: there is no setting "listen_on"`},
		"underscores":       {"max_attempts = 1\n", `there is no setting "max_attempts" (did you mean max-attempts?)`},
		"no number":         {"max-attempts = 'five'\n", `max-attempts: "five" is not a whole number`},
		"neither":           {"insecure = 'yes'\n", `insecure: "yes" is not true or false`},
		"itself":            {"config = 'x'\n", `there is no setting "config"`},
		"twice":             {"max-attempts = 1\nmax-attempts = 2\n", "FILE:2: "},
		"no TOML":           {"listen = 'a'\nmax-attempts: 2\n", "FILE:2: "},
		"wrong type":        {"\nmax-attempts = 1.5\n", "FILE:2: max-attempts: 1.5 is neither"},
		"wrong value":       {"max-attempts = 'many'\n", "max-attempts: "},
		"overridden, wrong": {"drain = 'soon'\n", "drain: "},
		"section":           {"[listen]\nhost = 'a'\n", "FILE:1: listen: a configuration has no sections"},
		"list of numbers":   {"host = [1, 2]\n", "FILE:1: host: a list may hold strings only"},
		"a date":            {"retention = 2026-01-01\n", "FILE:1: retention: "},
		"not UTF-8":         {"listen = '\xff'\n", "FILE"},
		"too large":         {strings.Repeat("#", maxConfigBytes+1), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configured(t, tt.file, "--drain", "1s")
			if err == nil {
				t.Fatal("it is taken")
			}
			got := err.Error()
			if i := strings.Index(got, "daybook.toml"); i >= 0 {
				got = "configuration FILE" + got[i+len("daybook.toml"):]
			}
			if !strings.Contains(got, tt.want) || exitCode(err) != exitUsage {
				t.Errorf("%s (exit code %d), want %s", got, exitCode(err), tt.want)
			}
		})
	}
	if _, err := readConfig(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is taken")
	}
}

// FuzzConfig: a file is read or refused, whatever its contents. Settings that were read can be written and read again.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("listen = '127.0.0.1:1'\nmax-attempts = 7\nhost = [\"a\", 'b,c', \"d\\\"e\"]\nallow-clock-ahead = true\n"))
	f.Add([]byte("[section]\nx = 1\n"))
	f.Add([]byte("a.b = 1\n'quoted key' = \"\"\"\nlines\n\"\"\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		settings, err := parseConfig(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), ":") {
				t.Errorf("%q does not say where", err)
			}
			return
		}
		values := map[string]string{}
		for _, s := range settings {
			values[s.key] = s.value
		}
		if len(values) != len(settings) {
			t.Fatalf("a key twice: %v", settings)
		}
		written, err := toml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseConfig(written)
		if err != nil || len(again) != len(settings) {
			t.Fatalf("%v, written as %q, is %v, %v", settings, written, again, err)
		}
		for _, s := range again {
			if values[s.key] != s.value {
				t.Fatalf("%s is %q, was %q", s.key, s.value, values[s.key])
			}
		}
	})
}
