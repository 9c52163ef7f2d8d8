// Package hostile attacks the running server by connections: on every route of the table there are clients that never
// read, that never write, and that send and read a byte a second, hundreds at a time. Meanwhile the server's memory,
// goroutines and descriptors are watched, and honest clients work: their claims must not get much slower, and their
// posts must go on.
//
// All of it runs on one machine, attackers included, so that an attacker's processor time is taken from the server's.
// Ratios are between windows with and without attack, by turns. What is asserted in a short run is what holds on a busy
// machine; -full asserts the targets of docs/reliability.md.
//
// Files:
//
//	attack.go         hostile connections
//	honest.go         clients that work, and how long their requests take
//	hostile_test.go   the lanes
//
// Not covered: attackers with addresses of their own (api has tests of the share of an address), and floods of packets,
// which are a firewall's work.
package hostile
