// Package input reads the input of a command: files and standard input, as lines, as JSON values or as rows of CSV.
//
// Contract: the memory that it needs has a bound, whatever the input is. Errors name the line.
package input
