// Package wsframe accepts WebSocket connections, and checks the frames of the client before the library reads them.
//
// The library (github.com/coder/websocket) ends a connection without a close frame if a frame has no mask or a length of
// 2^63 and more, and notices a message that is too long only when all that it may read has arrived. Here a frame that breaks
// the rules is known by its header. Reads then fail with an Error that has the status and the reason for the close frame, and
// Close waits until the client has read it: a system that closes a connection with bytes that nobody has read discards what
// the client has not read.
//
// The rules are those of RFC 6455 for what a server without extensions reads, and a bound for messages. Payloads are not
// looked at.
package wsframe
