// Package terminal is the part of the command line that people and scripts see: tables, colours, progress and logs,
// times as flags, signals, and exit codes with the errors that cause them. Texts of other programs and of jobs cannot
// change a terminal: control characters in them are escaped.
//
// Not for: servers and their addresses, and settings (package config).
package terminal
