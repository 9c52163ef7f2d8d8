// Package wsframe accepts WebSocket connections, and checks the client's frames before the library reads them.
//
// If a frame has no mask, or a length of 2^63 and more, the library (github.com/coder/websocket) ends the connection
// without a close frame. It notices that a message is too long only when it has read the maximum. This package recognizes
// a wrong frame by its header. Reads then return an Error with the status and the reason for the close frame. Close waits
// until the client has read that frame, because a system that closes a connection with unread bytes discards data that
// the client has not read yet.
//
// The rules are those that RFC 6455 sets for the frames that a server without extensions reads, and a bound for messages.
// Payloads are not checked.
package wsframe
