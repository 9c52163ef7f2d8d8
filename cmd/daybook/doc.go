// Command daybook is a durable job queue: the server, and commands for it. `daybook help` lists the commands.
//
// Files:
//
//   - main.go, root.go: the command line, and how it is run.
//   - serve.go, serve_run.go, serve_blobs.go, serve_mdns.go, serve_traces.go, serve_opsqueue.go, serve_systemd.go: the settings of the server;
//     how it starts, runs and stops; its blobs; how it announces itself; its traces; its listener for clients of Opsqueue;
//     what it reports to systemd.
//   - opsqueue_serve.go: the server with the command line of that of Opsqueue.
//   - config.go, environment.go, flag_values.go: settings from a file and from variables; durations and sizes.
//   - address.go, open_files.go, memory_limit.go, garbage.go, profiles.go: addresses to listen on and to connect to; file
//     descriptors; memory in a container; how often garbage is collected; profiles.
//   - system.go: which commands run on which operating systems. What differs between these is in file_limit_unix.go and
//     file_limit_other.go, bench_disk_unix.go and bench_disk_other.go, note_lock_unix.go and note_lock_windows.go.
//   - work.go, work_config.go, work_containers.go, work_progress.go: the command work, which runs jobs.
//   - add.go, submit.go, batches.go, get.go, logs.go, blob.go, blob_put.go, fileset.go, fileset_transfer.go, queues.go, delete_queue.go, stats.go,
//     clock.go, discover.go: commands that send requests to a server.
//   - chunks.go: where `daybook submit` and `daybook results` store and find long lines and outputs.
//   - waits.go, upload_note.go: why a command waits for the server; which upload a later `daybook blob put` goes on with.
//   - bench.go, bench_server.go, bench_report.go: how fast a server is; the server that is started for that, which
//     bench_server_linux.go, bench_server_other.go and bench_server_windows.go keep apart; progress and tables.
//   - check.go, journal.go, rebuild.go: commands for the data of a stopped server.
//   - version.go, licenses.go: the build, and the licences of what it contains.
//   - ask.go, output.go, exit_codes.go: reading a document from a server; tables and terminals; exit codes and hints.
//
// To add a command, write a file for it, a line in newRoot, and a test in main_test.go.
package main
