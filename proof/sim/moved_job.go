package sim

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// endRecord is an answered operation or outcome by which jobs ended or were deleted.
type endRecord struct {
	seq    uint64 // of the command
	at     int64
	from   uint64 // the seq by which it must have happened: a sweep is complete only when it is finished
	status job.Status
}

// movedJob describes one job that operators move, according to the answers and the journal up to some seq.
type movedJob struct {
	end         endRecord
	result      *job.Result // of that end, if a claim has reported it; nil: not known
	deleted     uint64      // seq of the delete that was answered
	ownRedrives []operation // redrives of this job alone
	granted     int         // how many of these were answered as granted
	notBefore   int64       // run_at, as long as only time can make the job pending
	patched     bool
	ran         bool  // the journal has a run of it that was not refused
	priority    []int // the values that it may have; nil: the posted value
	attempts    []int // the same for max_attempts
	lastClaim

	unended unendedStretch
}

// lastClaim is the last answered claim of a job.
type lastClaim struct {
	claim        job.ID
	seq          uint64
	at, deadline int64
	timeOut      int64 // 0: none
	handedOut    int   // the number of redrives at that time
	runAttempts  int
	ended        map[job.ID]bool // claims that were answered as having ended a run
	ungot        bool
}

// unendedStretch is a part of the journal in which a job had not ended. At its last place the job was unfinished and had
// been redriven as often as at its first place, and only a redrive makes an ended job unfinished.
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

// unpatched, in a list of values, means that the posted value is also possible.
const unpatched = -1

// allowed reports whether an attribute may have a value.
func allowed(list []int, posted, value int) bool {
	return slices.Contains(list, value) || value == posted && (len(list) == 0 || slices.Contains(list, unpatched))
}
