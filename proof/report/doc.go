// Package report writes the figures of a full run into docs/explanation/reliability.md. The page has a block for each attack,
// between two comments:
//
//	<!-- sim -->
//	Run on 2026-11-21 with commit `…`, storage code `…`, after release `…`.
//	…
//	<!-- /sim -->
//
// The first line of a block, its stamp, names the attacked code. A test fails when the figures are too old: the storage
// code has changed since, and more than one release has come out.
package report
