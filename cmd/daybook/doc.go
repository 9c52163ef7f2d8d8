// Command daybook is the durable job queue: the server, and the tools around it. `daybook help` lists the verbs.
//
// Files:
//
//   - main.go, root.go: the command line and what runs it.
//   - serve.go, serve_run.go, serve_mdns.go: the server: its settings, its life, and how it announces itself.
//   - config.go, environment.go, flag_values.go: settings in a file and in variables; durations and sizes.
//   - address.go, open_files.go, profiles.go: addresses to listen on and to connect to; file descriptors; profiles.
//   - add.go, get.go, queues.go, delete_queue.go, stats.go, clock.go, discover.go: verbs that ask a server.
//   - check.go, journal.go, rebuild.go: verbs for the data of a stopped server.
//   - version.go, licenses.go: what the binary is made of.
//   - ask.go, output.go, exit_codes.go: reading a document of a server; tables and terminals; exit codes and hints.
//
// To add a verb: a file with its command, a line in newRoot, a test in main_test.go.
package main
