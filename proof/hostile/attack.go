package hostile

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/api"
)

// attack is the behavior of a hostile connection, with a request to a route.
type attack struct {
	name string
	// bare: it gets the connection as it is, and otherwise with TLS if the server speaks it.
	bare bool
	run  func(ctx context.Context, c net.Conn, r *request)
}

var attacks = []attack{
	{name: "never reads", run: neverRead},
	{name: "never writes", run: neverWrite},
	{name: "a byte a second", run: trickle},
}

// request is a request to a route, in two parts.
type request struct {
	route      api.Route
	what       string // names the request, for a route with several requests
	kind       string // the media type of the body
	head, body string
	effects    bool // a complete request would disturb the honest clients
	// stream is a client's behavior in a stream, instead of a request.
	stream func(context.Context, *hostileStream)
	// tls is a client's behavior before and after the handshake, instead of a request. It gets the first record of a client.
	tls func(ctx context.Context, c net.Conn, hello []byte)
}

// neverRead sends complete requests and reads nothing. It sends one a second; faster, it would use the whole processor.
func neverRead(ctx context.Context, c net.Conn, r *request) {
	if r.effects {
		neverWrite(ctx, c, r)
		return
	}
	for ctx.Err() == nil {
		if _, err := io.WriteString(c, r.head+r.body); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// neverWrite announces a body and never sends it. Every other connection does not even send a request.
func neverWrite(ctx context.Context, c net.Conn, r *request) {
	if fd := c.LocalAddr().(*net.TCPAddr).Port; fd%2 == 0 {
		head := strings.Replace(r.head, fmt.Sprintf("Content-Length: %d", len(r.body)), "Content-Length: 8388608", 1)
		if _, err := io.WriteString(c, head); err != nil {
			return
		}
	}
	b := make([]byte, 4<<10)
	for ctx.Err() == nil { // until the server closes the connection
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}

// trickle sends and reads a byte a second.
func trickle(ctx context.Context, c net.Conn, r *request) {
	go func() {
		b := make([]byte, 1)
		for ctx.Err() == nil {
			if _, err := c.Read(b); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}()
	text := r.head + r.body
	// Send the head at once, and the body byte by byte.
	if at := strings.Index(text, "\r\n\r\n"); at > 0 && !r.effects {
		if _, err := io.WriteString(c, text[:at+4]); err != nil {
			return
		}
		text = text[at+4:]
	}
	for i := 0; ctx.Err() == nil && i < len(text); i++ {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
	<-ctx.Done()
}

// attackWith keeps n connections busy with an attack until ctx is done. The connections take the requests in turns. When
// the server closes a connection, it opens a new one. secure is nil if the server speaks no TLS. It returns how many it has
// opened.
func attackWith(ctx context.Context, address string, secure *tls.Config, n int, a attack, requests []*request) (opened int64) {
	var all sync.WaitGroup
	var count atomic.Int64
	for i := range n {
		r := requests[i%len(requests)]
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
				if err == nil {
					count.Add(1)
					if tcp, ok := c.(*net.TCPConn); ok {
						_ = tcp.SetReadBuffer(4 << 10) // so that the server's answers fill its own buffers
					}
					stop := context.AfterFunc(ctx, func() { c.Close() })
					if secure != nil && !a.bare {
						c = tls.Client(c, secure)
					}
					a.run(ctx, c, r)
					stop()
					c.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Second): // faster, it would be a flood of connections, a different attack
				}
			}
		})
	}
	all.Wait()
	return count.Load()
}
