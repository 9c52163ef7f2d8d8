// Package wsframetest provides the mistakes that a WebSocket client can make in its frames, for tests of servers. It
// writes a client's bytes directly, without a library.
package wsframetest
