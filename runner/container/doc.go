// Package container runs handlers of kind container. A job is a container of Docker or Podman: its payload names an image,
// a command, the fileset that is laid out before, and the one that is stored after it. docs/reference/containers.md shows how to use
// it.
//
// The payload has the form of etcdq's jobs:
//
//	{"Container": {"Config": {"Image": "docker.io/library/busybox:1.36", "Cmd": ["sh", "-c", "wc *.dat > sum.txt"]}},
//	 "Fileset": {"Input": {"Name": "measurements", "Patterns": ["**/*.dat"]}, "Output": {"Name": "sums", "Patterns": ["*.txt"]}}}
//
// The steps of a run: pull the image if it is missing, pull the input, create, start, run, push the output. The first one
// that fails ends the run. A container that ends with another status than 0 is a failure: the job runs again while it has
// attempts left, as with kind exec. The output of the job is a report as JSON: the exit code, the steps, the versions of
// the filesets, and the address of the log.
//
// What holds, whatever a job asks for and a container does:
//
//   - Of Config, a job may set Image, Cmd, Entrypoint, Env, WorkingDir, User, Labels and StopSignal. Everything else in the
//     payload is refused with its name, unless it is empty.
//   - The full name of the image, with its registry, is in the list of images. The container runs the very image that was
//     looked at, by its id.
//   - The container has no network, no capabilities and no devices, cannot get rights by a program with the setuid bit, and
//     cannot write to its image. It is not root, unless the engine has no rights itself (rootless).
//   - It cannot create namespaces, in which it would have capabilities, if the runner can read the engine's filter of system
//     calls. Missing reports the others.
//   - It sees one directory of the machine, its workspace, as /workspace. That, /tmp, /dev/shm and the volumes of its image
//     are all that it can write to.
//   - Memory without swap, processes, open files, /tmp, the workspace, its depth and its number of files, the log and the
//     time are bounded. The size of the workspace is looked at every half second or less often, so it may be exceeded by
//     what the disk takes in the meantime. No file in it can be larger than the bound. Files that the container has deleted
//     and holds open or mapped count, if the runner may look at its processes.
//   - An input that does not fit into the workspace is refused before a file is fetched.
//   - A volume of the image in the workspace is a directory of the workspace. Other volumes are in memory.
//   - If the server or the engine is away before the container has started, the job goes back to its queue and keeps its
//     attempt. If the server is away afterwards, the output and the log are stored as soon as it is back, for a bounded time.
//   - When the job's time is over, when the job is cancelled or its lease is lost, and when the runner stops, the container
//     gets its stop signal, and 5 seconds later SIGKILL. It is removed in every case.
//   - A container of a runner that was killed is removed when a runner with the same directory of workspaces starts. A
//     runner that lives holds a lock there, so its containers are not touched.
//   - The runner's memory does not depend on what a container prints.
//   - A rootless engine is used only by a runner of the same user. It may be unable to limit memory and processes, which
//     Missing reports.
//
// The runner reads the output of a container from the engine while the container runs. The engine keeps no log.
//
// Files of the workspace belong to the container's user. A push follows no links, and opens only regular files. It is the
// duty of Filesets, which has to read a directory that a container has written.
//
// # Files
//
//	settings.go      Settings; what is used of the server; which engine is used
//	images.go        the list of images
//	system_unix.go   locks, disks and limits
//	system_other.go  on other systems, there are no containers
//	tree.go          directories that containers have written: measured, and given to a user
//	workspaces.go    the directories of runs, and which runners live
//	fits.go          whether an input fits into a workspace
//	deleted_linux.go files that have no name any more and take room
//	deleted_other.go on other systems, they do not count
//	report.go        the output of a job: the steps and their times
//	stats.go         Stats: what is counted
//	engine.go        Engine: the connection with the engine; what killed runners have left
//	away.go          an engine that is away or hangs
//	orphans.go       containers that could not be removed
//	podman.go        what Podman does in another way
//	volumes.go       the volumes of an image
//	seccomp.go       the filter of system calls
//	limits.go        what a container may do and use
//	run.go           the steps of a run
//	await.go         the end of a container, by itself or not
//	executor.go      the jobs of one handler
//
// Not for: filesets and blobs (which Settings has interfaces of), logs (package runlog), how many runs there are at a time (package slots).
package container
