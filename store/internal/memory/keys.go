package memory

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/job"
)

// published are values of the last commit, by name. Requests read them all the time, from any goroutine.
type published[V any] struct {
	mu      sync.RWMutex
	byName  map[string]*V
	changes []change[V] // of commands that are not committed yet
}

type change[V any] struct {
	name  string
	value *V // nil: it was deleted
}

// Change notes that a command has stored a value, or with nil deleted it. Publish makes the change known.
func (p *published[V]) Change(name string, value *V) {
	p.changes = append(p.changes, change[V]{name, value})
}

// Publish makes known what has changed since the last call, and reports whether anything has.
func (p *published[V]) Publish() bool {
	if len(p.changes) == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName == nil {
		p.byName = map[string]*V{}
	}
	for _, c := range p.changes {
		if c.value != nil {
			p.byName[c.name] = c.value
		} else {
			delete(p.byName, c.name)
		}
	}
	p.changes = nil
	return true
}

// Keys are the keys of the last commit.
type Keys struct {
	published[job.Key]
	ever     atomic.Bool
	owners   map[string]int          // how many keys each client owns
	byPrefix *btree.BTreeG[*job.Key] // the keys with a runner prefix, in the order of runnerOrder
}

// runnerOrder is the order of runner prefixes. Keys with the same prefix are in the order of their clients and names.
func runnerOrder(a, b *job.Key) int {
	return cmp.Or(strings.Compare(a.RunnerPrefix, b.RunnerPrefix), slices.Compare(a.Clients, b.Clients), strings.Compare(a.Name, b.Name))
}

// Publish makes known what has changed since the last call.
func (k *Keys) Publish() {
	changes, was := k.changes, make(map[string]*job.Key, len(k.changes))
	for _, c := range changes {
		was[c.name] = k.byName[c.name] // only this goroutine changes the map
		if c.value == nil {
			continue
		}
		if c.value.LastUse = new(atomic.Int64); k.byName[c.name] != nil {
			c.value.LastUse = k.byName[c.name].LastUse // it was rotated
		}
	}
	if !k.published.Publish() {
		return
	}
	k.ever.Store(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range changes { // keys are often made in the order of their names, which makes the tree dense
		if before, first := was[c.name]; first {
			delete(was, c.name)
			k.own(before, -1)
			k.own(k.byName[c.name], 1)
			k.index(before, k.byName[c.name])
		}
	}
}

// index takes a key, in place of the one with its name, into the order of runner prefixes. Both can be nil.
func (k *Keys) index(was, now *job.Key) {
	if k.byPrefix == nil {
		k.byPrefix = btree.NewBTreeGOptions(func(a, b *job.Key) bool { return runnerOrder(a, b) < 0 }, btree.Options{NoLocks: true})
	}
	if was != nil && was.RunnerPrefix != "" {
		k.byPrefix.Delete(was)
	}
	if now != nil && now.RunnerPrefix != "" {
		k.byPrefix.Set(now)
	}
}

// own counts a key, if it has an owner.
func (k *Keys) own(key *job.Key, n int) {
	if key == nil || key.Owner() == "" {
		return
	}
	if k.owners == nil {
		k.owners = map[string]int{}
	}
	if k.owners[key.Owner()] += n; k.owners[key.Owner()] == 0 {
		delete(k.owners, key.Owner())
	}
}

// Owners returns how many clients own keys.
func (k *Keys) Owners() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.owners)
}

// Get returns the key with a name, or nil.
func (k *Keys) Get(name string) *job.Key {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byName[name]
}

// SharingRunners returns the name of another key that shares runners with a key, or "". It steps over keys with the same prefix and
// the same clients. So its cost grows with the number of different prefixes of those clients that begin with the key's.
func (k *Keys) SharingRunners(key *job.Key) string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.byPrefix == nil {
		return ""
	}
	for n := 1; n <= len(key.RunnerPrefix); n++ {
		prefix := key.RunnerPrefix[:n]
		from := &job.Key{RunnerPrefix: prefix}
		for {
			var other *job.Key
			k.byPrefix.Ascend(from, func(found *job.Key) bool {
				other = found
				return false
			})
			if other == nil || other.RunnerPrefix != prefix && (n < len(key.RunnerPrefix) || !strings.HasPrefix(other.RunnerPrefix, prefix)) {
				break
			}
			if other.Name != key.Name && key.SharesRunners(other) {
				return other.Name
			}
			after := other.Name + "\x00"
			if slices.Equal(other.Clients, key.Clients) {
				after = afterNames
			}
			from = &job.Key{Actor: job.Actor{Name: after, Scope: job.Scope{Clients: other.Clients}}, RunnerPrefix: other.RunnerPrefix}
		}
	}
	return ""
}

const afterNames = "\x7f" // is behind every name of a key

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

// Logins are the logins of the last commit.
type Logins struct{ published[job.Login] }

// Get returns the login with a name, or nil.
func (l *Logins) Get(name []byte) *job.Login {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.byName[string(name)]
}

// Of returns the logins of a key or person at a time, the first to end first, and everybody's that have ended.
func (l *Logins) Of(by string, now int64) (own, ended []*job.Login) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, login := range l.byName {
		switch {
		case login.Ended(now):
			ended = append(ended, login)
		case login.By == by:
			own = append(own, login)
		}
	}
	slices.SortFunc(own, func(a, b *job.Login) int { return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.Name, b.Name)) })
	return own, ended
}
