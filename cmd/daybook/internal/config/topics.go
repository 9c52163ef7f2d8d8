package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
)

// Topics are the help topics about variables and files.
func Topics() []*cobra.Command { return []*cobra.Command{environmentTopic(), configurationTopic()} }

func environmentTopic() *cobra.Command {
	long := `Every setting of ` + "`daybook serve`" + ` has an environment variable: DAYBOOK_MAX_ATTEMPTS sets --max-attempts. The settings of
other commands have the name of the command too: DAYBOOK_WORK_CONCURRENCY sets --concurrency of ` + "`daybook work`" + `. For all
commands there are

  DAYBOOK_SERVER      --server
  DAYBOOK_CONTEXT     --context
  DAYBOOK_TLS_CA      --tls-ca
  DAYBOOK_CLIENT_TLS_CERT, DAYBOOK_CLIENT_TLS_KEY
                      --tls-cert and --tls-key of commands that connect to a server
  DAYBOOK_KEY_FILE    --key-file
  DAYBOOK_ENCRYPT_KEY_FILE
                      --encrypt-key-file
  DAYBOOK_DATA        --data
  DAYBOOK_CONFIG      --config; for daybook work it is DAYBOOK_WORK_CONFIG
  DAYBOOK_CONFIG_DIR  --config-dir
  DAYBOOK_ENV         the name of the second file in --config-dir

` + "`daybook config VERB --json`" + ` prints the variable of each setting. A flag has precedence over its variable, and a variable
over the configuration files: see ` + "`daybook help configuration`" + `. An empty variable counts as not set.

A command does not start if a variable that begins with DAYBOOK_ is not known. Variables that Kubernetes sets for Services
with the name daybook, or a name that begins with daybook-, are ignored. So are these, which are for other programs:

`
	for _, name := range slices.Sorted(maps.Keys(otherVariables)) {
		if name != layerVariable && otherVariables[name] != ofTests {
			long += fmt.Sprintf("  %-17s  %s\n", name, otherVariables[name])
		}
	}
	long += `
` + "`daybook serve`" + ` also reads the variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT.`
	// Without Run it is a help topic, not a command.
	return &cobra.Command{Use: "environment", Short: "List the environment variables that are read", Long: long}
}

func configurationTopic() *cobra.Command {
	return &cobra.Command{
		Use: "configuration", Short: "Describe configuration files",
		Long: `A setting has the value of its flag; otherwise that of its variable (` + "`daybook help environment`" + `); otherwise that of a
configuration file; otherwise its default. ` + "`daybook config VERB`" + ` prints the value of each setting of a command, and where
it comes from.

--config FILE names a file, which must exist. --config-dir DIR names a directory, in which up to three files are read:
default.toml, the one that the variable DAYBOOK_ENV names (without it: development.toml), and local.toml. A file that does
not exist is left out. If several have the same setting, the last one counts. Without these flags and their variables, no file is read.

Settings have the names of the flags. The settings of ` + "`daybook serve`" + `, and server, context, tls-ca, key-file, encrypt-key-file and data for all commands, are at
the top level. The settings of other commands are in a section with the name of the command:

  max-attempts = 5
  allow-host = ["a.example"]
  server = "https://queue.example"
  [work]
  concurrency = 8

A file that ` + "`daybook work --config`" + ` names has the settings of work at its top level, beside its handlers.

A setting that does not exist is an error, and so is a wrong value, even if another source has precedence. A file is TOML, has
at most 1 MiB and is UTF-8.`,
	}
}
