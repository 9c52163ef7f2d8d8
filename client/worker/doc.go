// Package worker runs jobs: a Worker claims them, calls a handler for each, tickles the jobs while they run, and reports the
// outcomes. When its context ends, it drains.
//
// It gets its jobs in a stream while the server offers one, and by HTTP requests otherwise. A handler's context ends when
// the worker no longer holds the job, so a handler that returns then never works on a job that another runner has. A report
// names its claim, so a late one changes nothing.
//
// The Worker uses only the exported calls of package client, so a program that needs another kind of runner can use the
// same ones.
package worker
