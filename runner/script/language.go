package script

import (
	"embed"

	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/script/protocol"
)

//go:embed hosts
var hosts embed.FS

// language describes how to run scripts of a language.
type language struct {
	name     string
	program  string // looked up in PATH
	host     string // file name of the host
	encoding protocol.Encoding
	// locate are arguments with which the program prints its own path, and then directories that it reads, one per
	// line. The program in PATH may be a script that chooses the real one.
	locate []string
	// argv returns the command line of a host.
	argv func(program, host string) []string
}

var languages = []language{
	{
		name: handler.Node, program: "node", host: "host.js",
		locate: []string{"-p", "process.execPath"},
		argv:   func(program, host string) []string { return []string{program, host} },
	},
	{
		name: handler.Python, program: "python3", host: "host.py",
		locate: []string{"-c", "import sys; print(sys.executable); print(sys.base_prefix); print(sys.prefix)"},
		argv:   func(program, host string) []string { return []string{program, host} },
	},
	{
		name: handler.PHP, program: "php", host: "host.php",
		locate: []string{"-r", `echo PHP_BINARY, "\n", PHP_EXTENSION_DIR, "\n";`},
		argv: func(program, host string) []string {
			return []string{program, "-d", "display_errors=stderr", "-d", "log_errors=0", "-d", "html_errors=0", "-d", "memory_limit=-1", host}
		},
	},
	{
		name: handler.Shell, program: "sh", host: "host.sh", encoding: protocol.Base64,
		argv: func(program, host string) []string { return []string{program, host, program} },
	},
}
