// Package report writes the results of a comparison: tables for the terminal and for docs/explanation/performance.md, and
// JSON. The plot is in package plot, which needs a library.
package report
