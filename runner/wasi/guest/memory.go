package guest

import "github.com/tetratelabs/wazero/experimental"

// account is the memory of one run, used by the guest and its extensions. It is a memory allocator of wazero.
type account struct {
	pages *pages
	limit int64
	used  int64
	// refused is set if a request for memory was refused. failure is the error if the system refused it although it was
	// within the limit.
	refused  bool
	failure  error
	memories []*memory
}

var _ experimental.MemoryAllocator = (*account)(nil)

// Allocate implements experimental.MemoryAllocator.
func (a *account) Allocate(_, most uint64) experimental.LinearMemory {
	m := &memory{account: a, most: min(most, uint64(max(a.limit, 0)))}
	a.memories = append(a.memories, m)
	return m
}

// free frees all memories. wazero does not free the memory of a module that could not be instantiated.
func (a *account) free() {
	for _, m := range a.memories {
		m.Free()
	}
}

// memory is one memory of an account.
type memory struct {
	account *account
	most    uint64
	region  []byte // address space for the maximum size; nil before the first use
	used    int64
}

// Reallocate changes the size of the memory. It returns nil if the run may not have that much, or if the system refuses
// it.
func (m *memory) Reallocate(size uint64) []byte {
	a := m.account
	if size > m.most || a.used-m.used+int64(size) > a.limit {
		a.refused = true
		return nil
	}
	if m.region == nil {
		var err error
		if m.region, err = a.pages.take(m.most); err != nil {
			a.refused, a.failure = true, err
			return nil
		}
	}
	a.used += int64(size) - m.used
	m.used = int64(size)
	return m.region[:size]
}

// Free returns the memory.
func (m *memory) Free() {
	if m.region != nil {
		m.account.pages.give(m.region, int(m.used))
		m.account.used -= m.used
	}
	m.region, m.used = nil, 0
}
