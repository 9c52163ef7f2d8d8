// Package command turns requests about jobs into commands of package job: creates, claims, tickles and completions, in JSON,
// in lines and in runs. Requests over HTTP and in streams have the same bodies.
//
// What must hold:
//
//   - A create is checked completely, because it is acknowledged before it is applied. The applier knows no configuration,
//     so a create contains every default value.
//   - A list is decoded one item at a time, and memory is reserved for its items before they are decoded.
//   - A refusal names the field and its place in the request.
package command
