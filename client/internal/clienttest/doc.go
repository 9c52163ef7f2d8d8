// Package clienttest has the servers that the tests of the client and its Worker use: a fake one in place of a transport,
// which loses answers and works with a fake clock, one that is silent, and one behind connections that can be cut.
package clienttest
