package wire

import (
	"slices"
	"strings"
)

// Metadata is strategic metadata: a whole number for each key. It is sorted by key, and no key is there twice. On the
// wire it is a map from strings to numbers.
type Metadata []MetadataPair

// MetadataPair is a key and its value.
type MetadataPair struct {
	Key   string
	Value int64
}

// NewMetadata returns the pairs in order. If a key is there twice, the last value is used, as in the original. It sorts
// the slice in place.
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
