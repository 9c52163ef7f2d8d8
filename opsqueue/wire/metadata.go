package wire

import (
	"slices"
	"strings"
)

// Metadata is strategic metadata: whole numbers by key. It is sorted by key, and its keys are unique. On the wire, it is
// a map from strings to numbers.
type Metadata []MetadataPair

// MetadataPair is a key and its value.
type MetadataPair struct {
	Key   string
	Value int64
}

// NewMetadata sorts pairs in place and removes duplicate keys. As in the original, the last value of a key is kept.
func NewMetadata(pairs []MetadataPair) Metadata {
	slices.SortStableFunc(pairs, func(a, b MetadataPair) int { return strings.Compare(a.Key, b.Key) })
	kept := 0
	for i, p := range pairs {
		if i+1 < len(pairs) && pairs[i+1].Key == p.Key {
			continue
		}
		pairs[kept] = p
		kept++
	}
	if kept == 0 {
		return nil
	}
	return Metadata(pairs[:kept])
}

// Get returns the value of a key.
func (m Metadata) Get(key string) (value int64, ok bool) {
	i, ok := slices.BinarySearchFunc(m, key, func(p MetadataPair, key string) int { return strings.Compare(p.Key, key) })
	if !ok {
		return 0, false
	}
	return m[i].Value, true
}
