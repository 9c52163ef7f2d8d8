// Command daybook is a durable job queue: the server, and commands for it. `daybook help` lists the commands.
//
// Files:
//
//   - main.go, root.go, signals.go: the command line, and how it is run; signals that end it.
//   - serve.go, serve_run.go, serve_blobs.go, serve_mdns.go, serve_traces.go, serve_opsqueue.go, serve_systemd.go: the settings of the server;
//     how it starts, runs and stops; its blobs; how it announces itself; its traces; its listener for clients of Opsqueue;
//     what it reports to systemd.
//   - settings.go, config.go, config_file.go, config_print.go, environment.go, flag_values.go, time_flag.go: which flags are settings; their values
//     from files in TOML and YAML, and from variables; the command config; durations, sizes, times.
//   - address.go, open_files.go, memory_limit.go, garbage.go, profiles.go: addresses to listen on and to connect to; file
//     descriptors; memory in a container; how often garbage is collected; profiles.
//   - system.go: which commands run on which operating systems. What differs between these is in file_limit_unix.go and
//     file_limit_other.go, bench_disk_unix.go and bench_disk_other.go, no_follow_unix.go and no_follow_windows.go.
//   - work.go, work_config.go, work_containers.go, work_progress.go, work_trial.go, work_waiting.go: the command work, which runs jobs.
//   - remote.go, ask.go: what commands about a server share: its client, its documents, and whether it answers.
//   - context.go, contexts.go: servers with names.
//   - add.go, create.go, submit.go, close_batch.go: jobs from lines, one job, and a batch from lines; the end of an open batch.
//   - get.go, jobs.go, batches.go, queues.go, runners.go, logs.go, stats.go, disk.go: what is there, and how many bytes it has.
//   - error_text.go: errors of jobs in tables and documents.
//   - bulk.go, cancel.go, redrive.go, remove.go, run_now.go, ambiguous_ids.go: changes of jobs, of one or of many; ids that are a batch's
//     and a job's.
//   - claim.go, tickle.go, complete.go, release.go: what a runner does, one request at a time.
//   - pause.go, delete_queue.go, start_stop.go, clock.go, discover.go: queues and the server.
//   - blob.go, blob_put.go, fileset.go, fileset_transfer.go, handler.go: blobs, filesets and stored handlers.
//   - add_formats.go, add_state.go: the formats of the input of add; the file with which it goes on after it was killed.
//   - watch.go: waiting for the end of a job, batch or queue, and its exit codes.
//   - top.go, top_model.go, top_view.go: the live view of a server: where its figures are from, how keys and time change it,
//     and what is on the screen.
//   - progress_bar.go: progress bars, and a line of a terminal that changes.
//   - waits.go, upload_note.go: why a command waits for the server; which upload a later `daybook blob put` goes on with.
//   - bench.go, bench_server.go, bench_report.go: how fast a server is; the server that is started for that, which
//     bench_server_linux.go, bench_server_other.go and bench_server_windows.go keep apart; progress and tables.
//   - backup.go, restore.go: backups of a running server; data directories that are made of them.
//   - check.go, journal.go, rebuild.go: commands for the data of a stopped server.
//   - version.go, licenses.go, man.go, complete_names.go: the build, and the licences of what it contains; manual pages; names
//     that a shell completes.
//   - output.go, exit_codes.go: tables and terminals; exit codes and hints.
//
// To add a command, write a file for it, a line in commandGroups, and a test; then write its golden files and
// its page with `go test ./cmd/daybook -run TestCLI -rewrite-cli`.
package main
