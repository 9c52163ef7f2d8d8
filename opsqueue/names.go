package opsqueue

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// escapedKey is the prefix of an escaped key in meta. The hexadecimal digits of the key follow. A key that starts with
// this prefix is escaped, too.
const escapedKey = "hex:"

// metaName returns the name in meta for a key of strategic metadata. It escapes a key that is not a valid name. ok is
// false if the key is too long.
func metaName(key string) (name string, ok bool) {
	if isMetaName(key) && !strings.HasPrefix(key, escapedKey) {
		return key, true
	}
	name = escapedKey + hex.EncodeToString([]byte(key))
	return name, isMetaName(name)
}

func isMetaName(key string) bool {
	_, err := job.NewMeta(map[string]string{key: ""})
	return err == nil
}

// metaKey is the inverse of metaName.
func metaKey(name string) string {
	if digits, ok := strings.CutPrefix(name, escapedKey); ok {
		if key, err := hex.DecodeString(digits); err == nil {
			return string(key)
		}
	}
	return name
}

// batchMeta converts strategic metadata to the meta of a batch. The error names the value that does not fit.
func batchMeta(metadata wire.Metadata) (job.BatchMeta, error) {
	m := make(map[string]job.MetaValue, len(metadata))
	for key, value := range metadata {
		name, ok := metaName(key)
		if !ok {
			return "", fmt.Errorf("a key of strategic_metadata has %d bytes; the maximum is %d, or %d if it has other characters than letters, digits and . _ : -",
				len(key), job.MaxMetaNameBytes, (job.MaxMetaNameBytes-len(escapedKey))/2)
		}
		m[name] = job.MetaValue{Integer: value, IsInteger: true}
	}
	meta, err := job.NewBatchMeta(m)
	if err != nil {
		return "", fmt.Errorf("strategic_metadata: %w", err)
	}
	return meta, nil
}

// strategicMetadata is the inverse of batchMeta. It leaves out texts, which a batch created through Daybook's own API may
// have, because consumers of this protocol cannot read them.
func strategicMetadata(meta job.BatchMeta) wire.Metadata {
	metadata := wire.Metadata{}
	for name, v := range meta.All() {
		if v.IsInteger {
			metadata[metaKey(name)] = v.Integer
		}
	}
	return metadata
}

var baseStrategies = [...]job.Strategy{wire.Oldest: job.Oldest, wire.Newest: job.Newest, wire.Random: job.Random}

// strategyOf converts a strategy to the strategy of a claim. It drops a key that no submission can have, because that
// ranks nothing.
func strategyOf(s wire.Strategy) job.Strategy {
	strategy := baseStrategies[s.Base]
	for _, key := range slices.Backward(s.PreferDistinct) {
		if name, ok := metaName(key); ok {
			if nested, err := job.PreferDistinct(name, strategy); err == nil { // wire bounds the depth
				strategy = nested
			}
		}
	}
	return strategy
}
