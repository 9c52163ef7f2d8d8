// Package issuer tests the log-in of people and the tokens of programs with a real issuer: the example of the certified library
// github.com/zitadel/oidc. It is a module of its own, so that the issuer is no requirement of the server.
package issuer
