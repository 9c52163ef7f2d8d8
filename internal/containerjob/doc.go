// Package containerjob reads the payloads of jobs that run as containers. A payload has the form of etcdq's jobs, and its
// Config has the form of Docker's: docs/reference/containers.md lists the fields.
//
//	{"Container": {"Config": {"Image": "docker.io/library/busybox:1.36", "Cmd": ["sh", "-c", "wc *.dat > sum.txt"]}},
//	 "Fileset": {"Input": {"Name": "measurements", "Patterns": ["**/*.dat"]}, "Output": {"Name": "sums", "Patterns": ["*.txt"]}},
//	 "States": [{"State": "QUEUED", "Step": "", "Date": "2014-11-23T04:00:00Z"}]}
//
// The server and the runner use the same rules. The server refuses a create whose payload can never run, and the runner
// refuses the payloads of jobs that were created before their type had a handler of kind container.
//
// Each field of a payload is in one of three groups: the job may set it, it has no meaning for a container of a job and is
// ignored, or it is refused by name, because without it the container would do something else. A refused field may have an
// empty value, because programs that encode Docker's own types send all fields.
//
// Not for: the images that a runner allows, and what a container may do (package runner/container).
package containerjob
