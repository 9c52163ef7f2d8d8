// Package oidc verifies the tokens of issuers that speak OpenID Connect, and logs people in at one of them. Rules map the claims of
// a token to what a key permits, so the rest of the server sees a key.
//
// A start does not wait for issuers. Each has a goroutine that reads its description and its keys, and reads them again every hour,
// after failures, and when a token names a key that is not known. No request waits for this.
package oidc
