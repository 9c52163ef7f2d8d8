package memory

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// Bounds are sizes beyond which the store drops something from memory, divides it, or leaves it for later. Tests shrink
// them, so that a few jobs do what otherwise takes millions.
type Bounds struct {
	// Beyond these sizes the caches drop the entries that were not looked up lately. SpanBytes is for spans, and
	// SlotBytes for the slots of sessions. BatchBytes is for batches, and again for their groups. RowBytes is for each
	// of claims, submissions, runners, cells, sessions and hints.
	SpanBytes, BatchBytes, RowBytes, SlotBytes int
	// A window keeps at most MaxWindow keys. Its first refill takes MinWindow.
	MinWindow, MaxWindow int
	// WindowKeys is how many keys, of about 100 bytes each, all windows together may hold. Beyond it all windows shrink
	// to MinWindow.
	WindowKeys int
	Rules      *row.Rules // replaces the level's rules
}

// CachedSpanBytes is about the memory that a span takes in the cache.
const CachedSpanBytes = 200

var StandardBounds = Bounds{
	SpanBytes: 40 << 20, BatchBytes: 16 << 20, RowBytes: 8 << 20, SlotBytes: 16 << 20,
	MinWindow: 4, MaxWindow: 512, WindowKeys: 1_000_000,
}

var SmallBounds = Bounds{
	SpanBytes: 20 * CachedSpanBytes, BatchBytes: 2000, RowBytes: 1500, SlotBytes: 4000,
	MinWindow: 1, MaxWindow: 4, WindowKeys: 40,
	Rules: &row.Rules{PageBytes: 100, GroupPageBytes: 60, CellSpans: 2, CommandRows: 30, ClaimRows: 100, QueueRows: 5, ClaimBytes: 1000, SweepRows: 200, PurgedGroups: 2, EffectBytes: 1000, EffectRowBytes: 100, ListedClaims: 1, Sessions: 500, Documents: smallDocuments(), DocumentVersions: 3, DeletedDocuments: 4, DistinctStep: 2, DistinctRows: 20, DistinctBytes: 20_000, DistinctNodes: 3, DistinctLooks: 10},
}

// smallDocuments bounds the documents of all kinds alike.
func smallDocuments() (all [job.NumDocumentKinds]row.DocumentBounds) {
	for kind := range job.DocumentKinds {
		all[kind] = row.DocumentBounds{Names: 4, Bytes: 400}
	}
	return all
}

// RulesAt returns the rules of a level, or the rules that a test set.
func (b *Bounds) RulesAt(level int) row.Rules {
	if b.Rules != nil {
		return *b.Rules
	}
	return row.RulesAt(level)
}
