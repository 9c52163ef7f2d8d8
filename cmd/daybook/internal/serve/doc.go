// Package serve runs the server: it checks the settings, divides the open files and the memory of the process, puts the
// engine, the API, the blobs and the listeners together, and stops them in the opposite order.
//
// Not for: the work of the parts, and the help of `daybook serve`.
package serve
