package store

// bounds are sizes beyond which the store drops something from memory, divides it, or leaves it for later. Tests shrink
// them, so that a few jobs do what otherwise takes millions.
type bounds struct {
	// Beyond these sizes the caches drop the entries that were not looked up lately. spanBytes is for spans, and
	// slotBytes for the slots of sessions. batchBytes is for batches, and again for their groups. rowBytes is for each
	// of claims, submissions, runners, cells, sessions and hints.
	spanBytes, batchBytes, rowBytes, slotBytes int
	// A window keeps at most maxWindow keys. Its first refill takes minWindow.
	minWindow, maxWindow int
	// windowKeys is how many keys, of about 100 bytes each, all windows together may hold. Beyond it all windows shrink
	// to minWindow.
	windowKeys int
	rules      *rules // replaces the level's rules
}

// cachedSpanBytes is about the memory that a span takes in the cache.
const cachedSpanBytes = 200

var standardBounds = bounds{
	spanBytes: 40 << 20, batchBytes: 16 << 20, rowBytes: 8 << 20, slotBytes: 16 << 20,
	minWindow: 4, maxWindow: 512, windowKeys: 1_000_000,
}

var smallBounds = bounds{
	spanBytes: 20 * cachedSpanBytes, batchBytes: 2000, rowBytes: 1500, slotBytes: 4000,
	minWindow: 1, maxWindow: 4, windowKeys: 40,
	rules: &rules{pageBytes: 100, groupPageBytes: 60, cellSpans: 2, commandRows: 30, claimRows: 100, queueRows: 5, claimBytes: 1000, sweepRows: 200, purgedGroups: 2, effectBytes: 1000, effectRowBytes: 100, listedClaims: 1, sessions: 500, handlers: 4, handlerVersions: 3, handlersBytes: 300, distinctStep: 2, distinctRows: 20, distinctBytes: 20_000, distinctNodes: 3, distinctLooks: 10, filesets: 4, filesetVersions: 3},
}

// rulesAt returns the rules of a level, or the rules that a test set.
func (b *bounds) rulesAt(level int) rules {
	if b.rules != nil {
		return *b.rules
	}
	return rulesAt(level)
}
