package remote

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
)

// errSpeaksTLS is the answer of a server that speaks TLS to a request without it.
var errSpeaksTLS = errors.New("the server speaks TLS")

// TLSHint returns the next step after a connection by TLS that could not be made, or "".
func TLSHint(err error) string {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	told, isTold := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, errSpeaksTLS):
		return "Give --server with https://, and --tls-ca FILE if the system does not trust the authority that has signed the server's certificate."
	case errors.Is(err, http.ErrSchemeMismatch):
		return "The server does not speak TLS: give --server with http://, without --tls-ca, --tls-cert and --tls-key."
	case unknown:
		return "The server's certificate is signed by an unknown authority; pass --tls-ca FILE with the authority's certificate."
	case name:
		return "The server's certificate is for other names; give --server with one of them, or give the server a certificate for this one."
	case isInvalid && invalid.Reason == x509.Expired:
		return "The server's certificate is not valid now; renew it, or check the clock of this machine."
	case isTold && told.Op == "remote error" && strings.Contains(told.Err.Error(), "certificate required"):
		return "The server requires a certificate of its clients; give --tls-cert and --tls-key."
	case isTold && told.Op == "remote error" && strings.Contains(told.Err.Error(), "certificate"):
		return "The server refuses the certificate of --tls-cert; give one that an authority of its --tls-client-ca has signed."
	case isTold && told.Op == "remote error" && strings.Contains(told.Err.Error(), "protocol version"):
		return "The server requires a newer version of TLS; use this program, or start the server with --tls-min-version 1.2."
	}
	return ""
}
