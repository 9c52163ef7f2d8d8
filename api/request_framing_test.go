package api

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestFraming is the corpus of requests whose end is ambiguous. net/http refuses most of them; framing refuses the rest.
func TestFraming(t *testing.T) {
	r := start(t)
	const next = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
	// answers sends bytes, and returns the statuses of all answers until the connection ends.
	for _, c := range []struct {
		name, request string
		want          []int
	}{
		{"both lengths", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400}},
		{"both lengths, the other way", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 47\r\n\r\n0\r\n\r\n", []int{400}},
		{"both lengths on a GET", "GET /ping HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", []int{400}},
		{"both lengths after a good request", next + "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{200, 400}},
		{"two different lengths", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nx\n", []int{400}},
		{"two equal lengths", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nx\n", []int{201, 200}},
		{"a list of lengths", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2, 2\r\n\r\nx\n", []int{400}},
		{"a length with a sign", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: +2\r\n\r\nx\n", []int{400}},
		{"an empty length", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: \r\n\r\nx\n", []int{400}},
		{"a space before the colon", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length : 2\r\n\r\nx\n", []int{400}},
		{"a carriage return in a header", "POST /add HTTP/1.1\r\nHost: localhost\r\nX: y\rContent-Length: 2\r\n\r\n", []int{400}},
		{"two carriage returns at the end of a head", "POST /add HTTP/1.1\r\nHost: localhost\r\n\r\r\nContent-Length: 2\r\n\r\nx\n", []int{400}},
		{"chunked twice", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{501}},
		{"chunked in a list", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", []int{501}},
		{"another encoding with a length", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nx\n", []int{501}},
		{"an encoding after a vertical tab", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: \vchunked\r\nContent-Length: 2\r\n\r\nx\n", []int{400}},
		{"a chunk without a carriage return", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2;a\nx\n\r\n0\r\n\r\n", []int{400}},
		{"a chunk that is longer than its size", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nx\nxx0\r\n\r\n", []int{400}},
		{"a size of a chunk with 0x", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nx\n\r\n0\r\n\r\n", []int{400}},
		{"a header of two lines", "POST /add HTTP/1.1\r\nHost: localhost\r\nX: y\r\n Content-Length: 2\r\n\r\n", []int{400}},
		{"chunks in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{411}},
		{"chunks in HTTP/1.0 that keeps alive", "POST /add HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{411}},
		{"chunks and a length in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", []int{400}},
		{"another encoding and a length in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: x\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", []int{400}},
		{"chunks on a GET in HTTP/1.0", "GET /ping HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", []int{200, 400}},
		{"another encoding on a GET in HTTP/1.0", "GET /ping HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: x\r\n\r\n", []int{200, 400}},
		{"no length in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\nx\n", []int{411}},
		{"a length in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nx\n", []int{201}},
		{"a GET in HTTP/1.0", "GET /ping HTTP/1.0\r\nHost: localhost\r\n\r\n", []int{200}},
		{"no length in HTTP/1.1", "POST /add HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{201, 200}},
		{"chunks and then another request", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nx\n\r\n0\r\nTrailer: 1\r\n\r\n", []int{201, 200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := r.dial()
			defer conn.Close()
			testkit.Must(io.WriteString(conn, c.request+next))(t)
			in := bufio.NewReader(conn)
			for i, status := range c.want {
				resp, err := http.ReadResponse(in, nil)
				testkit.NoError(t, err, "answer", i)
				text := testkit.Must(io.ReadAll(resp.Body))(t)
				testkit.Equal(t, resp.StatusCode, status, "answer", i, text)
				testkit.Holds(t, status < 400 || resp.Close, "the connection stays open after", text)
			}
			if c.want[len(c.want)-1] >= 400 {
				rest, _ := io.ReadAll(in)
				testkit.Holds(t, !strings.Contains(string(rest), "HTTP/1.1"), "the rest was served", rest)
			}
		})
	}
}
