// Package certificates reads the files of certificates and keys that settings name, and notices when they change. The HTTP
// server, the nodes of a cluster and the commands that connect to a server use it. It does not decide which connections
// need certificates.
package certificates
