package web

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestCertificatesOfForeignPages: a browser adds the certificate of its user to the requests of any page. So it counts for pages of
// this server and for programs, and not for pages of --allow-origin.
func TestCertificatesOfForeignPages(t *testing.T) {
	for origin, counts := range map[string]bool{"": true, "https://queue.example": true, "https://other.example": false} {
		r := httptest.NewRequest("GET", "https://queue.example/stream", nil)
		if origin != "" {
			r.Header["Origin"] = []string{origin}
		}
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}, VerifiedChains: [][]*x509.Certificate{{{}}}}
		testkit.Equal(t, CredentialsOf(r, Access{}).Certificate != nil, counts, origin)
	}
}
