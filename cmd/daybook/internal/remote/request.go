package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// requestTimeout bounds a request of Fetch. No route that Fetch reads makes the server wait longer.
const requestTimeout = 30 * time.Second

// NoAnswerError is the error of a server that did not answer: no server listens there, or the connection broke.
type NoAnswerError struct {
	Server *config.ServerAddress
	Err    error
}

func (e *NoAnswerError) Error() string {
	err := e.Err
	if u, ok := errors.AsType[*url.Error](err); ok { // its text has the whole URL
		err = u.Err
	}
	return fmt.Sprintf("no answer from %s: %v", e.Server, err)
}
func (e *NoAnswerError) Unwrap() error { return e.Err }

// reach returns the base URL of all requests. It fails at once if no server, or another program, runs there. Later, a
// command repeats its requests while a server restarts.
func reach(cmd *cobra.Command, server *config.ServerAddress) (string, error) {
	base, err := server.URL(cmd.Context())
	if err != nil {
		return "", err
	}
	answer, err := fetch(cmd.Context(), server, "/ping")
	if err == nil && strings.TrimSpace(string(answer)) != "pong" {
		err = fmt.Errorf("%s: %w", server, client.ErrUnexpectedAnswer)
	}
	return base, err
}

// Unreadable is the error of a document that lacks the fields of a Daybook server.
func Unreadable(err error) error { return fmt.Errorf("%w: %w", client.ErrUnexpectedAnswer, err) }

// tlsWait is how long CheckTLS waits for an answer. A server that does not answer may do so later.
const tlsWait = 5 * time.Second

// CheckTLS returns an error if a connection to the server cannot be made because of its certificate or of the client's, or
// because one of them does not speak TLS. It is for a command that waits for its server: it would wait for ever.
func CheckTLS(cmd *cobra.Command, server *config.ServerAddress) error {
	ctx, stop := context.WithTimeout(cmd.Context(), tlsWait)
	defer stop()
	if _, err := fetch(ctx, server, "/ping"); err != nil && TLSHint(err) != "" {
		return err
	}
	return nil
}

// fetch requests a text from the server: from the first node of a cluster that answers and takes requests.
func fetch(ctx context.Context, server *config.ServerAddress, path string) (text []byte, err error) {
	urls, err := server.URL(ctx)
	if err != nil {
		return nil, err
	}
	for base := range strings.SplitSeq(urls, ",") {
		text, err = fetchFrom(ctx, server, base, path)
		_, silent := errors.AsType[*NoAnswerError](err)
		if !silent && client.StatusOf(err) != http.StatusServiceUnavailable || ctx.Err() != nil {
			break
		}
	}
	return text, err
}

func fetchFrom(ctx context.Context, server *config.ServerAddress, base, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return nil, terminal.Usagef("request %s from %s: the address is malformed", path, server)
	}
	shared, err := server.HTTP()
	if err != nil {
		return nil, err
	}
	if key, err := server.Key(); err != nil {
		return nil, err
	} else if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	c := *shared
	c.Timeout = requestTimeout
	resp, err := c.Do(req)
	if err != nil {
		return nil, &NoAnswerError{server, err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &NoAnswerError{server, err}
	}
	if resp.StatusCode == http.StatusOK {
		return text, nil
	}
	refusal := client.Error{Status: resp.StatusCode}
	if err := json.Unmarshal(text, &refusal); err != nil || refusal.Code == "" {
		if resp.StatusCode == http.StatusBadRequest && strings.HasPrefix(string(text), "this server speaks TLS") {
			return nil, &NoAnswerError{server, errSpeaksTLS}
		}
		return nil, fmt.Errorf("%s answered %s: %w", server, resp.Status, client.ErrUnexpectedAnswer)
	}
	return nil, &refusal
}
