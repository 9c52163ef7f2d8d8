// Package mdns announces a server on the local network, and finds servers there, by multicast DNS (RFC 6762) and DNS service discovery
// (RFC 6763).
//
// A server is announced as three services, so that programs of the Serval mesh find it as well:
//
//	_daybook._tcp.local.
//	_serval_queue._tcp.local.
//	_serval:queue._tcp.local.
//
// Each has the server's id as the name of its instance, an SRV record with the port, and the TXT fields http_port, path and version.
// The name of the host is <server id>.local., which no other program answers for.
//
// Each network interface has a responder of its own, which answers with the addresses that the interface has at that moment.
//
// Limits: nothing says that a server has gone. Its records are kept for two minutes by those who heard them, so a server that was found must
// be tried. Multicast stays within a network segment, and often does not pass Wi-Fi access points, VPNs or clouds. Nothing that is found
// is authenticated: whoever is in the segment can announce anything.
//
// Files:
//   - announce.go: the records of a server, and the responders.
//   - browse.go: finding servers.
//   - interfaces.go: the interfaces that can multicast, and their addresses.
package mdns
