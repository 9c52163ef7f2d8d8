package answer

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/api/internal/web"
)

// JobStateBytes is about the memory that a job needs in addition to its payload, output and errors. Most of it is
// meta.
const JobStateBytes = 2 << 10

// MaxDocumentBytes is the memory for the largest job: payload, output, the errors and log addresses of its history, and the rest.
const MaxDocumentBytes = job.MaxPayloadBytes + job.MaxOutputBytes + job.MaxHistory*(job.MaxErrorBytes+job.MaxAddrBytes+JobStateBytes) + 64<<10

// MaxDocumentsBytes is the memory for the jobs of a page: payloads and details, and the rest.
const MaxDocumentsBytes = job.MaxClaimBytes + job.MaxPage*JobStateBytes

// A result of a completion takes resultBytes in memory, and resultTextBytes in the answer.
const resultBytes = 64

const resultTextBytes = 192

// ResultsBytes is about the memory for n results, including the part of their text that is in memory at a time.
func ResultsBytes(n int) int64 {
	return 512 + int64(n)*resultBytes + min(int64(n)*resultTextBytes, web.MaxPooledAnswer)
}

// stepBytes is about the memory for a step in addition to its name, in a job and in a document of its states.
const stepBytes = 128

// StateBytes is about the memory for a job.
func StateBytes(j *job.Job) int64 {
	n := JobStateBytes + len(j.Payload) + len(j.Output) + len(j.OutputAddr) + len(j.LogAddr) + len(j.Error)
	for i := range j.Attempts {
		n += len(j.Attempts[i].Error) + len(j.Attempts[i].LogAddr)
	}
	for i := range j.Steps {
		n += stepBytes + len(j.Steps[i].Name)
	}
	return int64(n)
}

func StatesBytes(list []job.Job) (n int64) {
	for i := range list {
		n += StateBytes(&list[i])
	}
	return n
}
