// Package containerjob parses the payloads of jobs that run as containers. A payload has the form of etcdq's jobs, and
// its Config has the form of Docker's. docs/reference/containers.md lists the fields.
//
//	{"Container": {"Config": {"Image": "docker.io/library/busybox:1.36", "Cmd": ["sh", "-c", "wc *.dat > sum.txt"]}},
//	 "Fileset": {"Input": {"Name": "measurements", "Patterns": ["**/*.dat"]}, "Output": {"Name": "sums", "Patterns": ["*.txt"]}},
//	 "States": [{"State": "QUEUED", "Step": "", "Date": "2014-11-23T04:00:00Z"}]}
//
// The server and the runner apply the same rules. The server refuses to create jobs whose payload can never run. The
// runner refuses such payloads of jobs that were created before their type had a handler of kind container.
//
// Each field of a payload belongs to one of three groups. Jobs may set it; or it is ignored, because it means nothing for
// a job's container; or it is refused by name, because ignoring it would change what the container does. A refused field
// may have an empty value, because programs that encode Docker's own types send all fields.
//
// Not for: the images that a runner allows, and the rights of a container (package runner/container).
package containerjob
