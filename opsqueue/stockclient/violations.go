package stockclient

import (
	"fmt"
	"slices"
	"sync"
)

// Violations records what a server did that breaks the original's clients. Several producers and consumers may share it.
// The zero value is ready for use.
type Violations struct {
	mu   sync.Mutex
	list []string
	more int // were not kept
}

// mostViolations bounds the record: a server that breaks a rule once usually breaks it with every message.
const mostViolations = 100

func (v *Violations) add(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.list) == mostViolations {
		v.more++
		return
	}
	v.list = append(v.list, fmt.Sprintf(format, args...))
}

// List returns the violations in the order in which they were noticed: at most 100, and then a line with the number of the
// others.
func (v *Violations) List() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := slices.Clone(v.list)
	if v.more > 0 {
		list = append(list, fmt.Sprintf("and %d more", v.more))
	}
	return list
}
