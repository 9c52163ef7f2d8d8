// Package examples tests the programs in go, python and typescript: it runs them against a server, kills both, and counts
// the jobs. README.md says how to run them.
package examples
