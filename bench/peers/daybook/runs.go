package daybook

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// mimeRuns is the format in which the answer to a claim has the payloads as they were posted.
const mimeRuns = "application/vnd.daybook.runs"

// openRuns opens a session of plain HTTP requests whose claims are answered in runs.
func openRuns(s *server) measure.Session { return plain{s, mimeRuns} }

// claimedRuns finds the claim and the payloads in an answer in runs, and returns the id of the claim and the number of
// jobs.
func claimedRuns(answer []byte) (claimID string, jobs int, err error) {
	const section, claim, run, idBytes = "#:claim ", " claim_id=", "#:run ", 36
	at := bytes.Index(answer, []byte(section)) // the results of a completion come before it
	if at < 0 {
		return "", 0, nil
	}
	head, rest, _ := bytes.Cut(answer[at:], []byte("\n"))
	at = bytes.Index(head, []byte(claim))
	if at < 0 || at+len(claim)+idBytes > len(head) {
		return "", 0, nil // no job waits
	}
	claimID = string(head[at+len(claim) : at+len(claim)+idBytes])
	for bytes.HasPrefix(rest, []byte(run)) {
		head, rest, _ = bytes.Cut(rest, []byte("\n"))
		n, size := number(head, " n="), number(head, " bytes=")
		if n != size/lineBytes || size > len(rest) || bytes.Count(rest[:size], []byte("\n")) != n {
			return "", 0, fmt.Errorf("a run has other payloads than were posted: %q", head)
		}
		jobs, rest = jobs+n, rest[size:]
	}
	return claimID, jobs, nil
}

// number returns a field of a line, or 1 if it is left out, or -1 if it is not a number.
func number(line []byte, field string) int {
	_, value, ok := bytes.Cut(line, []byte(field))
	if !ok {
		return 1
	}
	value, _, _ = bytes.Cut(value, []byte(" "))
	n, err := strconv.Atoi(string(value))
	if err != nil {
		return -1
	}
	return n
}
