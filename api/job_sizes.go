package api

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/api/internal/web"
)

// jobStateBytes is about the memory that a job needs in addition to its payload, output and errors. Most of it is
// meta.
const jobStateBytes = 2 << 10

// maxDocumentBytes is the memory for the largest job: payload, output, the errors of its history, and the rest.
const maxDocumentBytes = job.MaxPayloadBytes + job.MaxOutputBytes + job.MaxHistory*(job.MaxErrorBytes+jobStateBytes) + 64<<10

// maxDocumentsBytes is the memory for the jobs of a page: payloads and details, and the rest.
const maxDocumentsBytes = job.MaxClaimBytes + job.MaxPage*jobStateBytes

// A result of a completion takes resultBytes in memory, and resultTextBytes in the answer.
const resultBytes = 64

const resultTextBytes = 192

// resultsBytes is about the memory for n results, including the part of their text that is in memory at a time.
func resultsBytes(n int) int64 {
	return 512 + int64(n)*resultBytes + min(int64(n)*resultTextBytes, web.MaxPooledAnswer)
}

// stepBytes is about the memory for a step in addition to its name, in a job and in a document of its states.
const stepBytes = 128

// stateBytes is about the memory for a job.
func stateBytes(j *job.Job) int64 {
	n := jobStateBytes + len(j.Payload) + len(j.Output) + len(j.OutputAddr) + len(j.LogAddr) + len(j.Error)
	for i := range j.Attempts {
		n += len(j.Attempts[i].Error)
	}
	for i := range j.Steps {
		n += stepBytes + len(j.Steps[i].Name)
	}
	return int64(n)
}

func statesBytes(list []job.Job) (n int64) {
	for i := range list {
		n += stateBytes(&list[i])
	}
	return n
}
