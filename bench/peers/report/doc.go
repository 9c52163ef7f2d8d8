// Package report writes the results of a comparison: tables for the terminal and for docs/explanation/performance.md, and
// JSON. The plot is in package plot, which needs a library.
//
// # Files
//
//	table.go     the tables, as text and as Markdown
//	files.go     JSON, and the block of a page
//	machine.go   describes the machine
package report
