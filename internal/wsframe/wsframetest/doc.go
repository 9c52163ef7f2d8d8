// Package wsframetest has the mistakes that a client can make with the frames of a WebSocket, for tests of servers. It writes
// the bytes of a client itself.
package wsframetest
