// Package limits measures the works of package works on one server, and finds out what limits each: the processors, the
// disk, the round trips, or something that it cannot see.
package limits
