package store

import "slices"

// distinctIndexes are the indexes of the strategies of prefer_distinct that claims have used lately. They cost memory
// for each pending span, and time for each move, so that only strategies in use have one. Which ones exist decides
// nothing: an index that is missing is built from the rows.
type distinctIndexes struct {
	list      []*distinctIndex
	trimmedAt int64
}

const (
	// maxDistinctIndexes is how many indexes there are at most. A claim by another strategy replaces the index that was
	// used least recently.
	maxDistinctIndexes = 16
	// distinctIdleMs is how long after its last claim an index is kept. It is long beside a pause between claims, because
	// building an index stops Apply.
	distinctIdleMs = 10 * 60_000
	// distinctTrimMs is how often unused indexes are looked for.
	distinctTrimMs = 10_000
)

// trim drops the indexes that have not been used for a while.
func (d *distinctIndexes) trim(now int64) {
	if len(d.list) > 0 && now-d.trimmedAt >= distinctTrimMs {
		d.trimmedAt = now
		d.list = slices.DeleteFunc(d.list, func(x *distinctIndex) bool { return now-x.usedAt >= distinctIdleMs })
	}
}

// moved follows a move of part of a span, or the first state of a span: see distinctIndex.moved.
func (d *distinctIndexes) moved(q *queue, b *batch, g *group, olds, news []span, active int64) {
	for _, x := range d.list {
		x.moved(q, b, g, olds, news, active)
	}
}

// paused follows a pause or its end.
func (d *distinctIndexes) paused(q *queue) {
	for _, x := range d.list {
		if root := x.roots[q]; root != nil {
			x.rerank(root)
		}
	}
}
