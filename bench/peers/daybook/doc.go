// Package daybook drives a Daybook server for the comparison, with a plain net/http client, with the Go client and its
// Worker, with streams, and with Python's standard library. To add a client, add a file and a line in Drivers.
package daybook
