// Package encryption encrypts payloads, outputs and errors, so that neither the server nor its backups can be read. Keys are
// a client.Codec:
//
//	keys, err := encryption.ReadFile("jobs.key")
//	c := client.New(url, client.Options{Codec: keys})
//
// # Format
//
// An encrypted content is a text without spaces:
//
//	dbe1.PART.ID.DATA
//
// dbe1 is the format and its version. PART is p for a payload, o for an output and e for an error. ID names the key: 16
// hexadecimal digits. DATA is base64url without padding (RFC 4648, section 5) of a nonce of 12 bytes, and of what AES-256-GCM
// returns: the ciphertext, and a tag of 16 bytes. The additional data that the tag protects is the text up to DATA, with the
// last dot. The plain text is a byte with the kind, t for a text, j for a JSON value and b for bytes, and the content.
//
// The text of n bytes has 24 + 4(n + 29)/3 bytes, rounded up.
//
// docs/reference/encryption.md describes it for programs in other languages.
package encryption
