// Package handler defines the document of a handler, which describes how runners run the jobs of a type. The server
// stores documents and never runs them. Runners decode them and run the jobs.
//
// The kinds:
//
//	exec    a program on the runner's machine. A stored handler names a program in the runner's configuration; it cannot
//	        contain a command line
//	http    a request to a URL
//	script  source in a language: node, python, php or sh
//	wasi    a WebAssembly module: the address of its blob, and its requirements
//	container  a container, which the job's payload describes: its image, its command, and filesets before and after it.
//	           The runner's configuration lists the images and limits the resources of a container
//
// Not for: running jobs (package runner), storing documents (package store).
package handler
