// Package hostile attacks the running server with connections. On every route, hundreds of clients never read their
// answers, never send the body that they announced, or send and read one byte a second. In streams they have more ways:
// see streamAttacks. They do the same to a server with TLS, where they also attack the handshake: see handshakeAttacks.
//
// # What it proves
//
// During an attack
//
//   - the server's memory, goroutines and file descriptors stay within bounds, in a memory cgroup of 1 GiB;
//   - honest clients can work: their claims do not get much slower, and their posts succeed;
//   - with only 336 file descriptors, no request of the honest clients is refused or left without an answer.
//
// # How
//
// Attackers, server and honest clients run on one machine, so the attackers take processor time from the server.
// Therefore latencies and rates are ratios between windows with and without the attack, which alternate. A short run
// asserts only facts that do not depend on how busy the machine is: memory, goroutines, descriptors, and that no honest
// request is lost. With -full, the test asserts the targets that docs/explanation/reliability.md reports, and fails on a
// busy machine.
//
// # What it does not prove
//
//   - The attackers all have the same network address. Package api tests the share of an address.
//   - TLS 1.2, with its renegotiations, and certificates of clients are not tried.
//   - Floods of packets, of requests and of frames are not tried. Firewalls must handle them: nothing bounds the
//     processor time that one connection takes.
package hostile
