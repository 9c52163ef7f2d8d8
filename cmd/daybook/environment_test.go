package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// refusedVariables returns the names of the variables that a command refuses.
func refusedVariables(environ []string) (names []string) {
	err := config.CheckVariables(newServe(), environ, allCommands)
	for _, m := range regexp.MustCompile(`environment variable (\S+):`).FindAllStringSubmatch(fmt.Sprint(err), -1) {
		names = append(names, m[1])
	}
	return names
}

// TestUnknownVariables: all commands refuse a misspelt variable, and name it and the correct one.
func TestUnknownVariables(t *testing.T) {
	environ := []string{
		"DAYBOOK_MAXATTEMPTS=5", "DAYBOOK_MAX_ATTEMPTS=5", "DAYBOOK_SERVER=x", "DAYBOOK_DATA=x", "DAYBOOK_=x", "DAYBOOK_EMPTY=", "PATH=/", "DAYBOOKS=1",
		"DAYBOOK_WORK_CONCURRENCY=1", "DAYBOOK_ENV=x", "DAYBOOK_CONFIG_DIR=x", "DAYBOOK_RUNNER_ID=x", "DAYBOOK_ADD_KEY=x", "DAYBOOK_PRINT_CONFIG=true", "DAYBOOK_CANCEL_YES=true",
		// Kubernetes sets these for Services with the names daybook, daybook-ui and daybook-a-1.
		"DAYBOOK_SERVICE_HOST=10.0.0.1", "DAYBOOK_SERVICE_PORT=1717", "DAYBOOK_SERVICE_PORT_HTTP=1717", "DAYBOOK_PORT=tcp://10.0.0.1:1717", "DAYBOOK_PORT_1717_TCP=tcp://10.0.0.1:1717",
		"DAYBOOK_PORT_1717_TCP_ADDR=10.0.0.1", "DAYBOOK_PORT_1717_TCP_PORT=1717", "DAYBOOK_PORT_1717_TCP_PROTO=tcp",
		"DAYBOOK_UI_SERVICE_HOST=10.0.0.1", "DAYBOOK_UI_SERVICE_PORT=80", "DAYBOOK_UI_PORT=tcp://10.0.0.1:80", "DAYBOOK_A_1_PORT_53_UDP_PORT=53",
		"DAYBOOK_JOURNAL_RETIAN=1G", "DAYBOOK_PORT=1717", "DAYBOOK_SERVICE=x",
	}
	if got := refusedVariables(environ); !slices.Equal(got, []string{
		"DAYBOOK_", "DAYBOOK_ADD_KEY", "DAYBOOK_CANCEL_YES", "DAYBOOK_JOURNAL_RETIAN", "DAYBOOK_MAXATTEMPTS", "DAYBOOK_PORT", "DAYBOOK_PRINT_CONFIG", "DAYBOOK_SERVICE",
	}) {
		t.Errorf("%q", got)
	}
	for name, want := range map[string]string{
		"DAYBOOK_MAXATTEMPTS": "(did you mean DAYBOOK_MAX_ATTEMPTS?)", "DAYBOOK_JOURNAL_RETIAN": "(did you mean DAYBOOK_JOURNAL_RETAIN?)", "DAYBOOK_CONCURRENCY": "(did you mean DAYBOOK_WORK_CONCURRENCY?)",
		"DAYBOOK_SEVRER": "(did you mean DAYBOOK_SERVER?)", "DAYBOOK_": "(did you mean DAYBOOK_BY?)", "DAYBOOK_SOMETHING_ELSE_ENTIRELY": "there is no such setting",
	} {
		testkit.Failed(t, config.CheckVariables(newServe(), []string{name + "=x"}, allCommands), want+"; ", name+":")
	}
	data := filepath.Join(t.TempDir(), "data")
	t.Setenv("DAYBOOK_MAXATTEMPTS", "5")
	for _, args := range [][]string{
		{"version"}, {"serve", "--data", data, "--init", "--listen", "127.0.0.1:0"}, {"work", "--server", "127.0.0.1:1"}, {"config"}, {"check", "--data", data}, {"queues"}, {"completion", "bash"},
	} {
		r := execute(t, "", args...)
		if r.code != terminal.ExitUsage || !strings.Contains(r.errs, "environment variable DAYBOOK_MAXATTEMPTS: there is no such setting (did you mean DAYBOOK_MAX_ATTEMPTS?)") || r.out != "" {
			t.Errorf("%v: exit code %d: %s%s", args, r.code, r.out, r.errs)
		}
	}
	testkit.Fails(os.Stat(data))(t)
	for _, args := range [][]string{{"help", "environment"}, {"serve", "--help"}, {"__complete", "ser"}} {
		r := execute(t, "", args...)
		testkit.Holds(t, r.code == terminal.ExitOK && r.out != "", args, "exit code", r.code, r.errs)
	}
}

// TestVariablesAreDistinct: no two settings have the same variable. No setting has a variable that Kubernetes sets, or
// that Daybook uses for something else.
func TestVariablesAreDistinct(t *testing.T) {
	of := map[string]string{}
	config.VisitCommands(allCommands(), func(cmd *cobraCommand) {
		for _, f := range config.SettingsOf(cmd) {
			name, setting := config.Variable(config.VerbOf(cmd), f.Name), config.VerbOf(cmd)+" --"+f.Name
			if slices.Contains(config.SharedFlags, f.Name) || config.VerbOf(cmd) != "serve" && slices.Contains(config.ClientPair, f.Name) {
				setting = "--" + f.Name
			}
			was := of[name]
			testkit.Holds(t, was == "" || was == setting, name, "sets both", was, "and", setting)
			of[name] = setting
			for _, value := range []string{"x", "tcp://10.0.0.1:1"} {
				none := func() *cobra.Command { return &cobra.Command{} }
				testkit.Holds(t, config.CheckVariables(cmd, []string{name + "=" + value}, none) != nil, name, "of", setting, "has another meaning")
			}
		}
	})
	testkit.Holds(t, len(of) >= 60, len(of), "variables")
}

// TestVariablesInTree: the makefile, the documents and the tests of processes set only variables that are known.
func TestVariablesInTree(t *testing.T) {
	// Variables of tests that start no daybook, of text about misspelt ones, and of code that runs before the command
	// line is read.
	apart := []string{
		"DAYBOOK_JOURNAL_KILL_DIR", "DAYBOOK_BLOB_KILL_DIR", "DAYBOOK_BLOB_BENCH_MIB", "DAYBOOK_TEST_ROOTLESS", "DAYBOOK_SANDBOX_HELPER", "DAYBOOK_WASI_GUEST", "DAYBOOK_TOKEN", "DAYBOOK_SECRET",
		"DAYBOOK_TEST_AS_COMMAND",
	}
	names, found := regexp.MustCompile(`\bDAYBOOK_[A-Z0-9_]*[A-Z0-9]\b`), 0
	testkit.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return filepath.SkipDir
		}
		extension := filepath.Ext(path)
		if d.IsDir() || d.Name() != "Makefile" && !slices.Contains([]string{".go", ".md", ".sh", ".yml", ".yaml", ".service"}, extension) || strings.HasPrefix(filepath.Base(path), "CHANGELOG") ||
			d.Name() == "environment_test.go" || d.Name() == "safety_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range names.FindAllString(string(text), -1) {
			found++
			testkit.Holds(t, len(refusedVariables([]string{name + "=x"})) == 0 || slices.Contains(apart, name), path, name, "which no command knows")
		}
		return nil
	}))
	testkit.Holds(t, found >= 50, found, "names")
}

// TestContextsAtOnce: no context is lost if several commands add one at the same time.
func TestContextsAtOnce(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	const n = 20
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			execute(t, "", "context", "add", fmt.Sprint("c", i), "http://127.0.0.1:1").ends(t, terminal.ExitOK)
		})
	}
	group.Wait()
	testkit.Equal(t, strings.Count(ok(t, "context", "list", "--json"), "\n"), n)
}
