package hostile

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/report"
)

// handshakeBounds: a connection without a finished handshake has a goroutine and some buffers, about 50 KiB.
var handshakeBounds = bounds{mostMore, 6}

// TestHostileHandshakes: hostile clients in handshakes, with -full each attack alone, otherwise all at once. Memory, goroutines and
// descriptors stay bounded, and honest clients with TLS can work. Then the attacks of TestHostileClients over TLS.
func TestHostileHandshakes(t *testing.T) {
	if testing.Short() {
		t.Skip("short: half a minute of attacks is left out")
	}
	b := beginTLS(t)
	a := attack{name: "handshakes", bare: true, run: b.inHandshake}
	n, d := 240, 2*time.Second
	if *full {
		n, d = connections, 4*time.Second
	}
	if _, err := b.honest.work(t.Context(), 2*d); err != nil { // the work itself takes memory, up to the limit of the caches
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString(rowHead)
	check := func(what string, a attack, requests []*request, limits bounds) {
		t.Helper()
		o := b.under(t, n, a, requests, 1, d)
		o.check(t, what, n, limits)
		testkit.Holds(t, len(o.busy.claims) != 0 && o.busy.posts != 0, what, "honest clients made", o.busy.posts, "posts and", len(o.busy.claims), "claims")
		table.WriteString(o.row(what, n))
	}
	if *full {
		for _, r := range handshakeAttacks {
			check("handshakes: "+r.what, a, []*request{r}, handshakeBounds)
		}
	}
	check("handshakes: all of these", a, handshakeAttacks, handshakeBounds)
	var list []*request
	for _, r := range b.requests {
		if r.route == (api.Route{Method: "GET", Path: "/jobs"}) {
			list = []*request{r}
		}
	}
	check("never read `GET /jobs`, over TLS", attacks[0], list, bounds{mostMore, 6})
	for _, a := range attacks[1:] {
		check(a.name+", all routes, over TLS", a, b.requests, bounds{mostMore, 6})
	}
	if *full {
		report.Write(t, "hostile-tls", table.String())
	}
}

// TestHandshakeAttacksArrive: the server understands the messages that the attacks encrypt themselves. It answers new keys, and
// refuses another hello, which it could not if the records were wrong.
func TestHandshakeAttacksArrive(t *testing.T) {
	authority := testkit.NewAuthority(t)
	l := testkit.Must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "server")}}))(t)
	defer l.Close()
	for what, test := range map[string]struct {
		message []byte
		want    string
	}{
		"new keys":      {[]byte{keyUpdate, 0, 0, 1, 1}, ""},
		"another hello": {[]byte{1, 0, 0, 0}, "tls:"},
	} {
		t.Run(what, func(t *testing.T) {
			got := make(chan error, 1)
			go func() {
				c, err := l.Accept()
				if err == nil {
					defer c.Close()
					_, err = c.Read(make([]byte, 1)) // the message comes before a byte of content
				}
				got <- err
			}()
			c := testkit.Must(net.Dial("tcp", l.Addr().String()))(t)
			defer c.Close()
			s, err := shaken(t.Context(), c)
			if err == errSuite {
				t.Skip(err)
			}
			testkit.NoError(t, err)
			testkit.Holds(t, send(t.Context(), c, s.record(test.message)))
			if test.want == "" {
				s.next()
				testkit.Holds(t, send(t.Context(), c, s.content("x")))
			}
			err = <-got
			testkit.Holds(t, (err == nil) == (test.want == "") && (err == nil || strings.Contains(err.Error(), test.want)), err)
		})
	}
}

// inHandshake attacks with a handshake.
func (b *target) inHandshake(ctx context.Context, c net.Conn, r *request) { r.tls(ctx, c, b.hello()) }

// hello returns the record with which a client of TLS begins.
func (b *target) hello() []byte {
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		_ = tls.Client(here, b.TLS).Handshake() // fails when there is closed
		here.Close()
	}()
	head := make([]byte, 5)
	if _, err := io.ReadFull(there, head); err != nil {
		panic(err)
	}
	hello := append(head, make([]byte, binary.BigEndian.Uint16(head[3:]))...)
	if _, err := io.ReadFull(there, hello[len(head):]); err != nil {
		panic(err)
	}
	return hello
}
