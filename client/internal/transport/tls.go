package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
)

// unverified reports whether a connection ended in its TLS handshake because one end refuses the other's certificate, or the
// server does not speak TLS. The server has then seen no request, and another try would fail, too.
func unverified(err error) bool {
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); refused {
		return true
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if _, other := errors.AsType[tls.RecordHeaderError](err); other {
		return true
	}
	// The server's refusal of a certificate. With TLS 1.3 it arrives after the client has sent its request, which the server
	// then discards.
	told, ok := errors.AsType[*net.OpError](err)
	return ok && told.Op == "remote error" && strings.Contains(told.Err.Error(), "certificate")
}
