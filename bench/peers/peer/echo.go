package peer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/process"
)

// echo is no queue, but an HTTP server that reads a request and answers it. Its rate is the limit for one job per request
// over HTTP.
type echo struct{}

// EchoVar is the environment variable with a port. If it is set, this program is the server of echo: see ServeEcho.
const EchoVar = "BENCH_PEERS_ECHO"

func (echo) Name() string { return "echo" }

func (echo) Describe(context.Context) (measure.Description, error) {
	return measure.Description{
		Driver: "echo", System: "a net/http handler that does nothing, in a process of its own", Client: "net/http",
		Durable: "stores nothing: it is no queue, but shows the most that one HTTP request a job allows",
		Usage: "POST with a payload, and with a completion and claim; the answer is the payload. In bulk, a claim is answered with as " +
			"many payloads as it asks for, each on a line",
	}, nil
}

func (echo) Does(w measure.Work) bool {
	return w.Name == measure.CreateOne.Name || w.Name == measure.ExchangeOne.Name || w.Kind == measure.Drain
}

func (echo) Start(ctx context.Context, dir string) (measure.Session, error) {
	s, err := StartEcho(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &echoSession{s}, nil
}

// EchoServer is a process that answers requests and stores nothing.
type EchoServer struct {
	process *process.Process
	url     string
}

// StartEcho starts this program as a server: see EchoVar.
func StartEcho(ctx context.Context, dir string) (*EchoServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	started, err := process.Start(process.Command{Path: self, Dir: dir, Env: []string{EchoVar + "=" + strconv.Itoa(port)}})
	if err != nil {
		return nil, err
	}
	if err := untilReady(ctx, started, process.Answers(port)); err != nil {
		return nil, err
	}
	return &EchoServer{started, fmt.Sprintf("http://127.0.0.1:%d", port)}, nil
}

func (s *EchoServer) Pid() int { return s.process.Pid() }

func (s *EchoServer) URL() string { return s.url }

func (s *EchoServer) Close() error { return s.process.Close() }

func (s *EchoServer) Fill(context.Context, int) error { return nil }

// ServeEcho serves until the process ends.
func ServeEcho(port string) error {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /stream", echoStream)
	routes.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // it is no error if the client has disconnected
	})
	routes.HandleFunc("POST /claim/{jobs}", func(w http.ResponseWriter, r *http.Request) {
		jobs, err := strconv.Atoi(r.PathValue("jobs"))
		if err != nil || jobs < 1 || jobs*(measure.PayloadBytes+1) > len(echoLines) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(echoLines[:jobs*(measure.PayloadBytes+1)]) // as above
	})
	return http.ListenAndServe("127.0.0.1:"+port, routes)
}

type echoSession struct{ *EchoServer }

func (s *echoSession) Dial(context.Context, int) (measure.Conn, error) {
	return &echoConn{url: s.url + "/", http: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}}}, nil
}

type echoConn struct {
	url    string
	http   *http.Client
	answer bytes.Buffer
}

// echoLines are the payloads in the answer to a claim.
var echoLines = bytes.Repeat([]byte(payload+"\n"), 1000)

var echoBody = []byte(`{"payload":"` + payload + `"}`)

// post sends a request, and keeps the answer until the next request.
func (c *echoConn) post(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(echoBody))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	c.answer.Reset()
	if _, err = c.answer.ReadFrom(answer.Body); err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("echo answered %s", answer.Status)
	}
	return err
}

func (c *echoConn) Create(ctx context.Context, _ int) error { return c.post(ctx, "") }

func (c *echoConn) Claim(ctx context.Context, most int) (int, error) {
	err := c.post(ctx, "claim/"+strconv.Itoa(most))
	return bytes.Count(c.answer.Bytes(), []byte("\n")), err
}

func (c *echoConn) Complete(ctx context.Context) error { return c.post(ctx, "") }

func (c *echoConn) Exchange(ctx context.Context, _ int) (int, error) { return 1, c.post(ctx, "") }

func (c *echoConn) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
