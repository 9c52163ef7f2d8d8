package stockclient

import (
	"strconv"
	"sync"
)

// ObjectStore is an in-memory object store for producers and consumers. Its keys are the original's: `<prefix>/<chunk
// index>-in.bin` and `<prefix>/<chunk index>-out.bin`.
type ObjectStore struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func objectKey(prefix string, index int64, direction string) string {
	return prefix + "/" + strconv.FormatInt(index, 10) + "-" + direction + ".bin"
}

func (s *ObjectStore) put(key string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string][]byte{}
	}
	s.objects[key] = content
}

func (s *ObjectStore) get(key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.objects[key]
	return content, ok
}
