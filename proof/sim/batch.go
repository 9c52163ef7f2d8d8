package sim

import "github.com/daybookq/daybook/job"

// createResult is the answer to a create.
type createResult int

const (
	unknown  createResult = iota // no answer, or an answer that the result is unknown
	stored                       // acknowledged
	rejected                     // not stored: none of its jobs may ever be found
	declined                     // refused by its batch: none of its jobs may ever be found, but the journal may have it
)

// batch is a create as its producer remembers it.
type batch struct {
	tag        string   // all its payloads begin with it
	by         *job.Key // of its producer; nil: none
	create     job.Create
	payloads   []string
	groups     []*job.Group // by line
	result     createResult
	id         job.ID      // of its first job, if it was stored
	first      job.ID      // id; if the answer was lost, as the journal or a claim has shown it
	journalSeq uint64      // its seq in the journal; 0: not seen there
	moved      bool        // operators may move it
	numbering  *numbering  // the session that numbered the create; nil: it has no number
	lost       bool        // an answer was lost, so the create may be stored even if a repeat is refused
	of         *submission // the batch with attributes that it makes or adds jobs to; nil: none
}

// job returns the id of the job of a line.
func (b *batch) job(line int) job.ID { return b.id.WithLine(b.id.Line() + line) }

// shown returns the id of the batch of its jobs.
func (b *batch) shown() job.ID {
	switch {
	case b.create.Joined:
		return job.ID{}
	case b.of != nil && b != b.of.create:
		return b.of.id()
	}
	return b.id
}
