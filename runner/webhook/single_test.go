package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// TestThousandSingles: miniq's own test. Each job is one request, with its payload and a line end.
func TestThousandSingles(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]string{}
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		testkit.Check(t, err)
		mu.Lock()
		seen[r.Header.Get("Daybook-Job-Id")] += string(body)
		mu.Unlock()
		fmt.Fprintf(w, "did %s", bytes.TrimSpace(body))
	}), handler.Options{})
	var jobs []*client.Job
	for i := range 1000 {
		jobs = append(jobs, newJob(i, fmt.Sprintf("payload %d", i)))
	}
	for i, end := range run(t, t.Context(), e, jobs...) {
		if want(t, end, "ok", 200, ""); string(end.Output) != fmt.Sprintf("did payload %d", i) || end.OutputKind != client.Text {
			t.Errorf("job %d has the output %q", i, end.Output)
		}
		testkit.Equal(t, seen[jobs[i].ID], fmt.Sprintf("payload %d\n", i), "job", i, "was sent as")
	}
	testkit.Equal(t, len(seen), 1000, "jobs arrived")
}

func TestSingleRequest(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var got http.Header
	var method, uri, body string
	var length int64
	to := web(t, func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		got, method, uri, body, length = r.Header, r.Method, r.RequestURI, string(all), r.ContentLength
	}) + "/a%2Fb?c=d"
	e := executor(t, to, handler.Options{})
	j := &client.Job{ID: "01a204a1-5c30", Type: "mail", Client: "acme", Kind: client.JSON, Payload: []byte("{\n}"), RunAttempts: 3, Traceparent: trace}
	want(t, run(t, t.Context(), e, j)[0], "ok", 200, "")
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Daybook-Job-Id": j.ID, "Idempotency-Key": j.ID, "Daybook-Type": "mail", "Daybook-Client": "acme",
		"Daybook-Attempt": "3", "Traceparent": trace, "User-Agent": "Daybook", "Accept-Encoding": "", "Cookie": "",
	} {
		testkit.Equal(t, got.Get(name), value, name)
	}
	testkit.Holds(t, method == "POST" && uri == "/a%2Fb?c=d" && body == "{\n}\n" && length == 4, method, uri, "with", body, "of", length)
	for kind, c := range map[client.Kind][2]string{
		client.Text: {"text/plain; charset=utf-8", "two\nlines"}, client.Bytes: {"application/octet-stream", "\x00\xff\n"}, client.None: {"text/plain; charset=utf-8", ""},
	} {
		j := &client.Job{ID: "a", Kind: kind, Payload: []byte(c[1])}
		want(t, run(t, t.Context(), e, j)[0], "ok", 200, "")
		testkit.Holds(t, body == c[1]+"\n" && got.Get("Content-Type") == c[0] && len(got["Traceparent"]) == 0, kind, body, "with", got)
	}
	want(t, run(t, t.Context(), e, &client.Job{ID: "a", Kind: client.WASI, BinaryAddr: "b"})[0], "failed", 0, "WASI")
}

// TestCookies: a cookie that a server sets is not sent back.
func TestCookies(t *testing.T) {
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		testkit.Holds(t, len(r.Cookies()) == 0, "the request has the cookies", r.Cookies())
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
	}), handler.Options{})
	for i := range 3 {
		want(t, run(t, t.Context(), e, newJob(i, ""))[0], "ok", 200, "")
	}
}

func TestStatuses(t *testing.T) {
	for status, c := range map[int]struct {
		code string
		exit int
		text string
	}{
		200: {"ok", 200, ""}, 201: {"ok", 201, ""}, 204: {"ok", 204, ""}, 299: {"ok", 299, ""},
		300: {"retry", 0, "HTTP 300 Multiple Choices: the body"}, 302: {"retry", 0, "HTTP 302 Found: the body"}, 304: {"retry", 0, "HTTP 304 Not Modified"},
		400: {"failed", 400, "HTTP 400 Bad Request: the body"}, 404: {"failed", 404, "HTTP 404 Not Found: the body"}, 499: {"failed", 499, "HTTP 499: the body"},
		408: {"retry", 0, "HTTP 408"}, 425: {"retry", 0, "HTTP 425"}, 429: {"retry", 0, "HTTP 429"},
		500: {"error", 500, "HTTP 500 Internal Server Error: the body"}, 503: {"error", 503, "HTTP 503"}, 599: {"error", 599, "HTTP 599: the body"},
		600: {"retry", 0, "HTTP 600: the body"}, 999: {"retry", 0, "HTTP 999"},
	} {
		e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			io.WriteString(w, " the body\n")
		}), handler.Options{})
		want(t, run(t, t.Context(), e, newJob(1, "a"))[0], c.code, c.exit, c.text)
	}
	for status, hold := range map[string]bool{"101 Switching Protocols": true, "050 Low": false} {
		to := rawWeb(t, func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 "+status+"\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n")
			if hold { // the run must not wait for the connection's end as if it were a body
				io.Copy(io.Discard, c)
			}
		})
		end := run(t, t.Context(), executor(t, to, handler.Options{}), newJob(1, "a"))[0]
		testkit.Equal(t, end.Code, "retry", status, end)
	}
}

func TestOutputs(t *testing.T) {
	long := strings.Repeat("a", 100)
	for name, c := range map[string]struct {
		contentType, body string
		kind              client.Kind
	}{
		"nothing":                    {"application/json", "", client.None},
		"JSON":                       {"application/json; charset=utf-8", "{\"a\": [1]}\n", client.JSON},
		"JSON of another type":       {"application/problem+json", "1", client.JSON},
		"text":                       {"text/plain", "ünü\n", client.Text},
		"JSON called text":           {"text/plain", "{}", client.Text},
		"bytes":                      {"text/plain", "a\xff", client.Bytes},
		"a type that cannot be read": {";;;", "a", client.Text},
		"as long as may be":          {"", long, client.Text},
	} {
		e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = []string{c.contentType}
			io.WriteString(w, c.body)
		}), handler.Options{InlineBytes: 100, OutputBytes: 100})
		end := run(t, t.Context(), e, newJob(1, "a"))[0]
		want(t, end, "ok", 200, "")
		testkit.Holds(t, string(end.Output) == c.body && end.OutputKind == c.kind, name, string(end.Output), "of kind", end.OutputKind)
	}
	for body, reason := range map[string]string{
		`{"a":`: "unexpected EOF", `{"a":1,"a":2}`: "duplicate", `NaN`: "invalid character", `"\ud800"`: "surrogate", "\"\xff\"": "UTF-8", "[] []": "after top-level", " ": "EOF",
	} {
		for _, contentType := range []string{"application/json", "application/problem+json; charset=utf-8"} {
			e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Type"] = []string{contentType}
				io.WriteString(w, body)
			}), handler.Options{})
			end := run(t, t.Context(), e, newJob(1, "a"))[0]
			testkit.Holds(t, end.Code == "error" && strings.HasPrefix(end.Error, "INVALID_JSON: ") &&
				strings.Contains(end.Error, reason) && end.Output == nil, body, end, "want", reason)
		}
	}
	for _, flush := range []bool{true, false} { // without and with Content-Length
		e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
			if flush {
				w.(http.Flusher).Flush()
			}
			io.WriteString(w, long+"a")
		}), handler.Options{InlineBytes: 100, OutputBytes: 100})
		want(t, run(t, t.Context(), e, newJob(1, "a"))[0], "failed", 0, "more than 100 bytes")
	}
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		io.WriteString(w, strings.Repeat("ü", 1<<20))
	}), handler.Options{})
	end := run(t, t.Context(), e, newJob(1, "a"))[0]
	testkit.Holds(t, len(end.Error) <= errorBodyBytes+100 && len(end.Error) >= errorBodyBytes, "an error of", len(end.Error), "bytes")
}

// TestCompressed: compressed bodies are neither requested nor expanded, so a small body cannot become a large one.
func TestCompressed(t *testing.T) {
	bomb := []byte("\x1f\x8b\x08 not expanded \xff")
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb)
	}), handler.Options{})
	end := run(t, t.Context(), e, newJob(1, "a"))[0]
	testkit.Holds(t, bytes.Equal(end.Output, bomb) && end.OutputKind == client.Bytes, end)
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still
		now := time.Now()
		for value, want := range map[string]time.Duration{
			"": -1, "0": 0, " 7 ": 7 * time.Second, "86400": maxRetryAfter, "86401": maxRetryAfter, "99999999999999999999": maxRetryAfter,
			"-1": -1, "1.5": -1, "soon": -1,
			now.Add(90 * time.Second).UTC().Format(http.TimeFormat):    90 * time.Second,
			now.Add(-90 * time.Second).UTC().Format(http.TimeFormat):   0,
			now.Add(1000 * time.Hour).UTC().Format(http.TimeFormat):    maxRetryAfter,
			now.Add(90 * time.Second).UTC().Format(time.RFC850):        90 * time.Second,
			now.Add(90*time.Second).UTC().Format(time.ANSIC) + " junk": -1,
		} {
			testkit.Equal(t, retryAfter(http.Header{"Retry-After": {value}}, now), want, value)
		}
	})
	for status, delayed := range map[int]bool{200: false, 302: true, 404: false, 429: true, 503: true} {
		e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		}), handler.Options{})
		end := run(t, t.Context(), e, newJob(1, "a"))[0]
		testkit.Holds(t, (!delayed || end.DelayMs != nil && *end.DelayMs == 7000) && (delayed || end.DelayMs == nil), status, end)
	}
}

// TestHTTP2: many requests share an HTTP/2 connection, and never more run at a time than the handler allows.
func TestHTTP2(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		testkit.Equal(t, r.ProtoMajor, 2, "HTTP/")
		io.Copy(w, r.Body)
		mu.Lock()
		now--
		mu.Unlock()
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	e, err := New(Settings{Allow: loopback(t), TLS: s.Client().Transport.(*http.Transport).TLSClientConfig}, handler.Document{Kind: handler.HTTP, URL: s.URL})
	testkit.NoError(t, err)
	defer e.Close()
	var jobs []*client.Job
	for i := range 200 {
		jobs = append(jobs, newJob(i, fmt.Sprint(i)))
	}
	for i, end := range run(t, t.Context(), e, jobs...) {
		want(t, end, "ok", 200, "")
		testkit.Holds(t, string(end.Output) == fmt.Sprintf("%d\n", i), "job", i, string(end.Output))
	}
	testkit.Holds(t, most <= 10, most, "requests at a time")
	strange := executor(t, s.URL, handler.Options{}) // does not trust the server's certificate
	want(t, run(t, t.Context(), strange, newJob(1, "a"))[0], "error", 0, "BATCH_ERROR: tls: failed to verify certificate")
}

// TestSingleContext: a task whose context ends is given back, whether its request is running or waits for its turn.
func TestSingleContext(t *testing.T) {
	arrived, left := make(chan struct{}, 10), make(chan struct{}, 10)
	e := executor(t, web(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}), handler.Options{Concurrency: 1})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	for i, end := range run(t, ctx, e, newJob(1, "a"), newJob(2, "b"), newJob(3, "c")) {
		testkit.Holds(t, end.Unget, "task", i, "ended with", end)
	}
	<-left // the server noticed
	testkit.Holds(t, len(arrived) == 0, "a task was sent after its context had ended")

	// Another batch's request has the only turn.
	var first, second ends
	one, endOne := context.WithCancel(t.Context())
	two, endTwo := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() { e.Run(first.tasks(one, []*client.Job{newJob(4, "d")})) })
	<-arrived
	waits := second.tasks(two, []*client.Job{newJob(5, "e")})
	runs.Go(func() { e.Run(waits) })
	endTwo()
	testkit.Eventually(t, "the task that waits is given back", func() bool { return second.count() == 1 })
	testkit.Holds(t, second.list[0].Unget && first.count() <= 0, second.list[0])
	endOne()
	runs.Wait()
}

func TestSpecial(t *testing.T) {
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.100.100.200", "100.127.255.255", "127.0.0.1", "127.255.255.255",
		"168.63.129.16", "169.254.0.1", "169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1",
		"198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "fc00::", "fd00:ec2::254", "fdff::1", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "ff02::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
		"64:ff9b::127.0.0.1", "64:ff9b::10.1.2.3", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "64:ff9b:0:1::8.8.8.8",
		"2002:7f00:1::", "2002:808:808::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1", "2001:db8::1", "3fff::1", "5f00::1",
		"100::1", "4000::1", "2001:4860:4860::8888%eth0",
	} {
		testkit.Holds(t, special(netip.MustParseAddr(text)) != "", text, "is public")
	}
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "168.63.129.15", "169.253.255.255",
		"169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2001:4860:4860::8888", "2606:4700:4700::1111", "2a00:1450:4001::1", "2001:200::1",
	} {
		testkit.Equal(t, special(netip.MustParseAddr(text)), "", text)
	}
}

// FuzzSpecial: an IPv4 address gets the same verdict in every form, and no address that the standard library calls
// private or local is public.
func FuzzSpecial(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		ip, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		public := special(ip) == ""
		if plain := ip.Unmap(); public && (plain.IsPrivate() || plain.IsLoopback() || plain.IsLinkLocalUnicast() || plain.IsMulticast() || plain.IsUnspecified()) {
			t.Errorf("%s is public", ip)
		}
		if !ip.Is4() {
			return
		}
		v4 := ip.As4()
		mapped := netip.AddrFrom16(ip.As16())
		translated := netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: v4[0], v4[1], v4[2], v4[3]})
		testkit.Holds(t, (special(mapped) == "") == public && (special(translated) == "") == public, ip, mapped, "and", translated, "differ")
	})
}
