// Package memory is the part of the state that is in memory: all queues with their lanes, windows of the next spans, the trees from
// which a claim draws, documents, counts for metrics, and caches of rows. It bounds each of them.
//
// Live is shared: the applying goroutine writes it under its lock, and queries read it. The rest belongs to the applying goroutine.
// Nothing that Apply decides depends on the contents of a cache.
package memory
