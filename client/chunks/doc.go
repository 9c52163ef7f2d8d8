// Package chunks works through large inputs: Submit fills a batch with any number of jobs, Consume is a Worker for the jobs
// of batches, which it calls chunks, and Results yields their outputs in order. With a Store, payloads and outputs that are
// too long for a job are blobs of the server, and jobs have references to them.
package chunks
