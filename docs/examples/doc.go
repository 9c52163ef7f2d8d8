// Package examples has no code of its own: the programs are in go, python and typescript, and the tests here run them against
// a server, kill both, and count the jobs. README.md says how to run them.
package examples
