// Package document has the documents of batches, queues, claims, runners, sessions, sweeps and named documents, as queries and
// results of commands return them. They have exported fields only, and no rules.
package document
