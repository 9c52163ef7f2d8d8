// Package mdns announces a server on the local network, and finds servers there. It uses multicast DNS (RFC 6762) and
// DNS service discovery (RFC 6763).
//
// A server is announced as three services. The last two are the names by which programs of the Serval mesh find it:
//
//	_daybook._tcp.local.
//	_serval_queue._tcp.local.
//	_serval:queue._tcp.local.
//
// The name of the instance of each service is the server's id. Each service has an SRV record with the port, and the
// TXT fields http_port, path and version. The name of the host is <server id>.local., and no other program answers
// queries for that name.
//
// Each network interface has a responder of its own. It answers with the current addresses of the interface. Interfaces that
// come, go or change while a server runs get or lose their responders within a few seconds.
//
// Limits:
//   - A server that stops is not reported. Other machines keep its records for two minutes, so a server that was found may
//     not answer.
//   - Multicast stays within a network segment. Wi-Fi access points, VPNs and clouds often do not forward it.
//   - Records are not authenticated: any machine in the segment can announce anything.
//
// Files:
//   - announce.go: the records of a server, and the responders.
//   - browse.go: queries for servers.
//   - interfaces.go: the interfaces that can multicast, and their addresses.
package mdns
