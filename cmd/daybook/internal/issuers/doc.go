// Package issuers reads the file of --oidc-file: the issuers whose tokens the server accepts, and the rules that give roles to
// their claims. It does not connect to issuers.
package issuers
