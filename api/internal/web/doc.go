// Package web serves routes over HTTP/1.1. It bounds connections and memory, refuses requests that no handler should see,
// and has the parts of requests and answers that all handlers share. It knows no jobs: which routes there are, and what
// an error of a handler means, is given to it.
//
//	listener ──► connection (speed, framing) ──► guard (Host, Origin) ──► route (query, headers) ──► handler
//	                                                └──────────────────────────┴────────────────────────┴──► Problem
//
// What must hold:
//
//   - Every refusal is a problem document of RFC 9457 with a stable code, and it says whether anything was stored. This
//     includes the router's refusals and panics.
//   - The server reads no byte of a body that it refuses for its length, its type or its route.
//   - The bytes of all bodies and answers in memory are bounded: each holds a Share of a Lane of a Budget.
//   - A client that sends or reads too slowly loses its connection.
package web
