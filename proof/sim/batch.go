package sim

import "github.com/daybookq/daybook/job"

// createResult is what a create was answered with.
type createResult int

const (
	unknown  createResult = iota // no answer, or one that says that it is unknown
	stored                       // acknowledged
	rejected                     // refused: no job of it may ever be found
)

// batch is a create as its producer remembers it.
type batch struct {
	tag        string // all its payloads begin with it
	create     job.Create
	payloads   []string
	groups     []*job.Group // by line
	result     createResult
	id         job.ID       // if it was stored
	journalSeq uint64       // its seq in the journal; 0: not seen there
	moved      bool         // operators may move it
	numbering  *numbering   // which numbered the create; nil: it has no number
	lost       bool         // an answer was lost, so the create may be stored even if a repeat is refused
	omitted    map[int]bool // lines that made no job, since another job has their unique key
}
