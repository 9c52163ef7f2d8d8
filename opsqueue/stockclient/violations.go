package stockclient

import (
	"fmt"
	"slices"
	"sync"
)

// Violations records the actions of a server that break the original's clients. Several producers and consumers may share
// it. The zero value is ready for use.
type Violations struct {
	mu   sync.Mutex
	list []string
	more int // number of violations that were not kept
}

// mostViolations bounds the record. A server that breaks a rule usually breaks it with every message.
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

// List returns the violations in the order in which they were noticed: at most 100, followed by a line with the number of
// the rest.
func (v *Violations) List() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := slices.Clone(v.list)
	if v.more > 0 {
		list = append(list, fmt.Sprintf("and %d more", v.more))
	}
	return list
}
