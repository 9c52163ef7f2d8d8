package memory

import (
	"sync"
	"sync/atomic"

	"github.com/daybookq/daybook/job"
)

// Keys are the keys of the last commit, by name. Requests read them all the time, from any goroutine.
type Keys struct {
	mu      sync.RWMutex
	byName  map[string]*job.Key
	ever    atomic.Bool
	changes []keyChange // of commands that are not committed yet
}

type keyChange struct {
	name string
	key  *job.Key // nil: it was revoked
}

// Change notes that a command has stored a key, or with nil revoked it. Publish makes the change known.
func (k *Keys) Change(name string, key *job.Key) { k.changes = append(k.changes, keyChange{name, key}) }

// Publish makes known what has changed since the last call.
func (k *Keys) Publish() {
	if len(k.changes) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byName == nil {
		k.byName = map[string]*job.Key{}
	}
	for _, c := range k.changes {
		if c.key != nil {
			if c.key.LastUse = new(atomic.Int64); k.byName[c.name] != nil {
				c.key.LastUse = k.byName[c.name].LastUse // it was rotated
			}
			k.byName[c.name] = c.key
		} else {
			delete(k.byName, c.name)
		}
	}
	k.changes = nil
	k.ever.Store(true)
}

// Get returns the key with a name, or nil.
func (k *Keys) Get(name string) *job.Key {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byName[name]
}

// Uses returns the hours of the last uses of the keys that were used.
func (k *Keys) Uses() map[string]int64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	uses := map[string]int64{}
	for name, key := range k.byName {
		if hour := key.LastUse.Load(); hour > 0 {
			uses[name] = hour
		}
	}
	return uses
}

// Len returns the number of keys.
func (k *Keys) Len() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.byName)
}

// Ever reports whether there ever was a key.
func (k *Keys) Ever() bool { return k.ever.Load() }
