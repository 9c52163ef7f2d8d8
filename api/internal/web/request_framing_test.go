package web

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// FuzzFraming compares framing with net/http. Until framing refuses a head, both find the same requests, and no request
// has both length headers.
func FuzzFraming(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /add HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /add HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /add HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"POST /add HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
		"POST /add HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"\r\n\r\nGET / HTTP/1.1\nHost: x\n\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX: y\r\n Content-Length: 5\r\n\r\nabcde",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\r\nContent-Length: 5\r\n\r\nabcde",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5 \t;x\r\nabcde\r\n00\r\n\r\n",
	} {
		f.Add([]byte(seed), byte(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, step byte) {
		var heads framing
		for rest := stream; len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			heads.feed(rest[:n])
			rest = rest[n:]
		}
		in := bufio.NewReader(bytes.NewReader(stream))
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return // net/http closes the connection
			}
			if wrong := heads.Next(); wrong != "" {
				return // the server closes the connection
			}
			testkit.Holds(t, len(r.Header["Content-Length"]) == 0 || r.ContentLength >= 0, "both lengths", stream)
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
		}
	})
}

func TestConfiguredHosts(t *testing.T) {
	for _, name := range []string{"", "a:1", "http://a", "a/b", "a b", "a:", "*.", "**", "*a", "a.*", "*.*"} {
		_, err := configuredHosts([]string{name})
		testkit.Holds(t, err != nil, name, "is taken")
	}
	for name, hosts := range map[string]map[string]bool{
		"daybook":   {"daybook": true, "DAYBOOK:1717": true, "daybook.evil.example": false, "other": false},
		"*.cluster": {"daybook.cluster": true, "a.b.Cluster:80": true, "cluster": false, ".cluster": false, "evilcluster": false},
		"*":         {"anything.example": true, "": true},
	} {
		h := testkit.Must(configuredHosts([]string{name}))(t)
		for host, allowed := range hosts {
			testkit.Equal(t, h.allow(host), allowed, "--allow-host", name, host, "is allowed", !allowed)
		}
	}
}
