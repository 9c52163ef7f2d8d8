// Package container runs handlers of kind container. Each job is a container of Docker or Podman. The job's payload names
// an image, a command, a fileset to lay out before the run, and a fileset to store after it. docs/reference/containers.md
// is the user's guide.
//
// The payload has the form of etcdq's jobs:
//
//	{"Container": {"Config": {"Image": "docker.io/library/busybox:1.36", "Cmd": ["sh", "-c", "wc *.dat > sum.txt"]}},
//	 "Fileset": {"Input": {"Name": "measurements", "Patterns": ["**/*.dat"]}, "Output": {"Name": "sums", "Patterns": ["*.txt"]}}}
//
// The steps of a run: pull the image if it is missing, pull the input, create, start, run, push the output. A failed step
// ends the run. A non-zero exit status is an error: the job runs again while it has attempts left, as with kind exec. The
// job's output is a JSON report with the exit code, the steps, the versions of the filesets, and the address of the log.
//
// These rules hold for every job and every container:
//
//   - Of Config, a job may set Image, Cmd, Entrypoint, Env, WorkingDir, User, Labels and StopSignal. Any other non-empty
//     field of the payload is refused by name.
//   - The full name of the image, with its registry, is in the list of images. The container runs the inspected image, by
//     its id.
//   - The container has neither network, capabilities nor devices. It cannot gain rights through setuid programs, and
//     cannot write to its image. It does not run as root, unless the engine itself is rootless.
//   - It cannot create namespaces, in which it would have capabilities, if the runner can read the engine's seccomp
//     profile. Missing reports engines for which it cannot.
//   - It sees one directory of the machine, its workspace, as /workspace. It can write only to that, /tmp, /dev/shm and the
//     volumes of its image.
//   - Memory (without swap), processes, open files, /tmp, the workspace with its depth and number of files, the log and the
//     time are bounded. The runner measures the workspace every half second or less often, so a container may exceed the
//     bound by the bytes that the disk can write in between. No single file can exceed it. Deleted files that the
//     container keeps open or mapped count, if the runner may see its processes.
//   - An input that does not fit into the workspace is refused before any file is fetched.
//   - An image's volume in the workspace becomes a directory of the workspace. Other volumes are in memory.
//   - If the server or the engine is unreachable before the container has started, the job goes back to its queue and keeps
//     its attempt. If the server is unreachable afterwards, the runner retries to store the output and the log for a bounded
//     time.
//   - When the job's time is over, when the job is cancelled or its lease is lost, and when the runner stops, the container
//     gets its stop signal, and 5 seconds later SIGKILL. It is always removed.
//   - When a runner starts, it removes the containers of killed runners that used the same directory of workspaces. A
//     running runner holds a lock there, so its containers are not touched.
//   - The runner's memory does not depend on how much a container prints.
//   - Only a runner of the same user can use a rootless engine. Such engines may be unable to limit memory and processes,
//     which Missing reports.
//
// The runner reads a container's output from the engine while the container runs. The engine keeps no log.
//
// The container's user owns the files of the workspace. A push follows no links and opens only regular files. Filesets
// must guarantee that, because it reads a directory that a container has written.
//
// Not for: filesets and blobs (Settings has their interfaces), logs (package runlog), the number of concurrent runs
// (package slots).
package container
