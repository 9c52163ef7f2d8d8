package client_test

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// TestTLS: the client uses the settings of TLS. When a certificate is refused, by either end, a request is not repeated, and a
// create is not ErrUnknown: the server has not seen it.
func TestTLS(t *testing.T) {
	var connections, requests atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { requests.Add(1); _, _ = io.WriteString(w, "pong\n") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	trusts := s.Client().Transport.(*http.Transport).TLSClientConfig
	own := trusts.Clone()
	own.Certificates = s.TLS.Certificates // any certificate will do

	c := client.New(s.URL, client.Options{TLS: own})
	testkit.NoError(t, c.Ping(t.Context()))
	testkit.Equal(t, requests.Load(), 1)
	for name, o := range map[string]client.Options{"the server's is unknown": {}, "the client has none": {TLS: trusts}} {
		t.Run(name, func(t *testing.T) {
			connections.Store(0)
			c := client.New(s.URL, o)
			testkit.Fails(0, c.Ping(t.Context()))(t, problem.ErrUnavailable)
			testkit.Equal(t, connections.Load(), 1, "connections")
			_, err := c.Create(t.Context(), client.TextJob("t", "x"))
			testkit.Failed(t, err, problem.ErrUnavailable)
			testkit.Equal(t, connections.Load(), 2, "connections")
			testkit.Equal(t, requests.Load(), 1, "requests")
		})
	}
	plain := httptest.NewServer(s.Config.Handler)
	defer plain.Close()
	testkit.Fails(0, client.New(strings.Replace(plain.URL, "http:", "https:", 1), client.Options{}).Ping(t.Context()))(t, problem.ErrUnavailable, http.ErrSchemeMismatch)
}
