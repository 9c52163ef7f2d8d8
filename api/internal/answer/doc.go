// Package answer encodes jobs, claims and results for answers. Requests over HTTP and in streams have the same documents.
//
// Documents of jobs, ids of jobs and results of outcomes are encoded by hand, because one answer has up to a thousand of
// them and the JSON library takes 4 to 9 times as long. Everything else is a struct for the library.
//
// The sizes of jobs in memory are here, too: a caller takes a share of a budget before it reads the jobs.
package answer
