package answers

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

const (
	// MaxLineBytes bounds a line that creates a job: a type and the longest payload.
	MaxLineBytes = job.MaxPayloadBytes + 1<<10
	// MaxThen bounds the jobs that one job creates. MaxThenBytes bounds the sum of their payloads. The server stores
	// them in one record with the outcome.
	MaxThen      = 100
	MaxThenBytes = job.MaxPayloadBytes
)

// JobLines collects the jobs that lines J: type|payload or #J: type|payload create.
type JobLines struct {
	then  []client.NewJob
	bytes int
	bad   string
}

// Add takes the part of a line after J:. After an invalid line it ignores all further lines.
func (j *JobLines) Add(text []byte, tooLong bool) {
	if j.bad != "" {
		return
	}
	name, payload, _ := bytes.Cut(text, []byte("|"))
	name = bytes.TrimSpace(name)
	switch err := job.CheckName("type", string(name)); {
	case tooLong:
		j.bad = fmt.Sprintf("a J: line has more than %d bytes", MaxLineBytes)
	case err != nil:
		j.bad = fmt.Sprintf("a J: line with the type %.100q: %v", name, err)
	case len(j.then) == MaxThen:
		j.bad = fmt.Sprintf("more than %d J: lines create jobs", MaxThen)
	case j.bytes+len(payload) > MaxThenBytes:
		j.bad = fmt.Sprintf("the payloads of J: lines have more than %d bytes together", MaxThenBytes)
	default:
		j.then = append(j.then, client.NewJob{Type: string(name), Payload: slices.Clone(payload)})
		j.bytes += len(payload)
		return
	}
	j.then = nil
}

// Refuse rejects all lines for a reason that the caller has found.
func (j *JobLines) Refuse(why string) {
	if j.bad == "" {
		j.bad, j.then = why, nil
	}
}

// Take returns the jobs, or the problem with the lines, and resets j.
func (j *JobLines) Take() (then []client.NewJob, bad string) {
	then, bad = j.then, j.bad
	*j = JobLines{}
	return then, bad
}
