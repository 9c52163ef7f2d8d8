// Package transport sends requests to a server: one try, its time-outs and its errors, and the repeats. Packages client and
// files build their requests for it and decode its answers.
//
// A try ends with an Answer, or with an error that says whether something may have been stored. A request is repeated only if
// that cannot have an effect twice.
package transport
