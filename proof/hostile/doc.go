// Package hostile attacks the running server with connections. On every route of the table, hundreds of clients never
// read their answers, never send the body that they announced, or send and read one byte a second. In streams they do
// more: see streamAttacks.
//
// # What it proves
//
// During an attack
//
//   - the server's memory, goroutines and file descriptors stay within bounds, in a memory cgroup of 1 GiB;
//   - honest clients go on working: their claims do not get much slower, and their posts go on;
//   - with only 256 file descriptors, no request of the honest clients is refused or left without an answer.
//
// # How
//
// Attackers, server and honest clients run on one machine, so the attackers take processor time from the server. So
// latencies and rates are ratios between windows with and without the attack, which take turns. A short run asserts
// only what a busy machine does not change: memory, goroutines, descriptors, and that no honest request is lost. With
// -full, the test asserts the targets that docs/explanation/reliability.md reports, and fails on a busy machine.
//
// # What it does not prove
//
//   - Attackers with network addresses of their own are not tried. Package api tests the share of an address.
//   - Floods of packets, of requests and of frames are not tried. They are the task of a firewall: nothing bounds the
//     processor time that one connection takes.
//
// # Files
//
//	attack.go         hostile connections
//	streams.go        what hostile clients do in streams
//	honest.go         honest clients, and how long their requests take
//	hostile_test.go   the attacks, on each route and on all, and their bounds
//	streams_test.go   the attacks in streams, and their bounds
package hostile
