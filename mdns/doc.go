// Package mdns announces a server on the local network, and finds servers there. It uses multicast DNS (RFC 6762) and
// DNS service discovery (RFC 6763).
//
// A server is announced as three services. Programs of the Serval mesh find it by the last two:
//
//	_daybook._tcp.local.
//	_serval_queue._tcp.local.
//	_serval:queue._tcp.local.
//
// Each service's instance is named after the server's id. The service has an SRV record with the port, and the TXT
// fields http_port, path and version, and tls=1 if clients connect by TLS. The host name is <server id>.local., for which no
// other program answers queries.
//
// Each network interface has a separate responder, which answers with the interface's current addresses. If an
// interface appears, disappears or changes while the server runs, its responder is started, stopped or replaced within
// a few seconds.
//
// Limits:
//   - A server does not announce that it stops. Other machines keep its records for two minutes, so a server that was
//     found may not answer.
//   - Multicast stays within a network segment. Wi-Fi access points, VPNs and clouds often do not forward it.
//   - Records are not authenticated: any machine in the segment can announce anything.
package mdns
