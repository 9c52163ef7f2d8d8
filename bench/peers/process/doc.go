// Package process starts the servers of the comparison and ends them. A server ends with the process that started it,
// however that process ends.
package process
