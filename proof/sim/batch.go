package sim

import "github.com/daybookq/daybook/job"

// fate says what a create was answered with.
type createResult int

const (
	unknown  createResult = iota // no answer, or one that says so
	stored                       // acknowledged
	rejected                     // refused: it must never be found
)

// batch is a create as its producer remembers it.
type batch struct {
	tag        string // which all its payloads begin with
	create     job.Create
	payloads   []string
	groups     []*job.Group // by line
	result     createResult
	id         job.ID       // when stored
	journalSeq uint64       // where the journal has it; 0: not seen there
	moved      bool         // operators may move it
	numbering  *numbering   // that the create has a number of; nil: it has none
	lost       bool         // an answer was lost: this may be stored whatever a repeat of it is told
	omitted    map[int]bool // lines that made no job, since another has their key
}
