// Package memory bounds the memory of a process: it follows the limit of the container, and says how much garbage the
// collector waits for.
package memory
