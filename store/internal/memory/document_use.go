package memory

import (
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// DocumentUse counts the existing documents of each kind, and the bytes of all their versions, of all clients and of each. Commands are
// refused by it before they are journaled, so it counts commands that are not committed yet.
type DocumentUse struct {
	mu  sync.RWMutex
	all [job.NumDocumentKinds]document.Use
	of  [job.NumDocumentKinds]map[string]document.Use // by client, without ""; no zeros
}

// Count adds documents and bytes of a client. Both may be negative.
func (u *DocumentUse) Count(kind job.DocumentKind, client string, by document.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all[kind] = u.all[kind].Plus(by)
	if client == "" {
		return
	}
	if u.of[kind] == nil {
		u.of[kind] = map[string]document.Use{}
	}
	if sum := u.of[kind][client].Plus(by); sum == (document.Use{}) {
		delete(u.of[kind], client)
	} else {
		u.of[kind][client] = sum
	}
}

// Forget begins to count again, before the documents are loaded.
func (u *DocumentUse) Forget(kind job.DocumentKind) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all[kind], u.of[kind] = document.Use{}, nil
}

// Of returns what some clients have together, and what all have.
func (u *DocumentUse) Of(kind job.DocumentKind, clients []string) (own, all document.Use) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, client := range clients {
		own = own.Plus(u.of[kind][client])
	}
	return own, u.all[kind]
}
