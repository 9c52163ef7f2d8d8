// Package handler has the document of a handler: what runners do with the jobs of a type. The server stores documents
// and never runs them. Runners decode them and run the jobs.
//
// The kinds:
//
//	exec    a program that runs on the runner's machine. A stored handler names one that the runner's configuration has;
//	        it has no command line itself
//	http    a request to a URL
//	script  source in a language: node, python, php or sh
//	wasi    a module of WebAssembly: the address of its blob, and what it requires
//	container  a container, which the job's payload describes: its image, its command, and filesets before and after it.
//	           The runner's configuration lists the images, and what a container may use
//
// The files:
//
//	permission.go  what a guest of WASI may do
//	handler.go     Document, Options, and Check
//	manifest.go    checks handlers of kind wasi
//
// Not for: running jobs (package runner), storing (package store).
package handler
