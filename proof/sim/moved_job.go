package sim

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// over is that jobs had ended, or were gone, from a seq on, by an operation or outcome that was answered.
type endRecord struct {
	seq    uint64 // of the command
	at     int64
	from   uint64 // from which on it holds: a sweep has effect once it is finished
	status job.Status
}

// movedStory is what the answers and the journal up to some seq report of a job that operators move.
type movedJob struct {
	end         endRecord
	deleted     uint64      // seq of the delete that was answered
	ownRedrives []operation // redrives of this job alone
	granted     int         // of those, how many were answered as granted
	notBefore   int64       // run_at, while nothing but time can make the job pending
	patched     bool
	priority    []int // that it may have; nil: the one that was posted
	attempts    []int // max_attempts, likewise
	lastClaim

	unended unendedStretch
}

// lastClaim is the last claim of a job that was answered.
type lastClaim struct {
	claim        job.ID
	seq          uint64
	at, deadline int64
	timeOut      int64 // 0: none
	handedOut    int   // redrives at that time
	runAttempts  int
	ended        map[job.ID]bool // claims that ended a run, in an answer
	ungot        bool
}

// evidence is a stretch of the journal in which a job had not ended: it was unfinished at the last of these places, had
// been redriven as often as at the first, and only a redrive makes an ended job unfinished.
type unendedStretch struct {
	redrives    int
	first, last uint64
}

func (s *movedJob) patch(p *job.Patch, sure bool) {
	s.patched = true
	set := func(list *[]int, value *int) {
		switch {
		case value == nil:
		case sure:
			*list = []int{*value}
		case len(*list) == 0:
			*list = []int{unpatched, *value}
		default:
			*list = append(*list, *value)
		}
	}
	set(&s.priority, p.Priority)
	set(&s.attempts, p.MaxAttempts)
	if p.RunAt != nil {
		if s.notBefore = 0; sure {
			s.notBefore = *p.RunAt
		}
	}
}

// unpatched is in a list of values when the one that was posted is possible too.
const unpatched = -1

// allowed reports whether an attribute may have a value.
func allowed(list []int, posted, value int) bool {
	return slices.Contains(list, value) || value == posted && (len(list) == 0 || slices.Contains(list, unpatched))
}
