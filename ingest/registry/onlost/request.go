package onlost

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// requester sends the document to a URL.
type requester struct {
	to     *url.URL
	client *http.Client
}

func newRequester(to *url.URL) *requester {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true // requests are rare
	return &requester{to, &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a redirect is a failure
	}}
}

// try sends the document. Every 2xx status is a success.
func (r *requester) try(ctx context.Context, _ string, document []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.to.String(), bytes.NewReader(document))
	if err != nil {
		return fmt.Errorf("make a request for %s: %w", r.to.Redacted(), err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		return err // contains the URL, without a password
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 2 {
		return nil
	}
	var answer said
	if _, err := io.Copy(&answer, io.LimitReader(res.Body, maxSaid)); err != nil {
		return fmt.Errorf("%s answered %s: %w", r.to.Redacted(), res.Status, err)
	}
	return fmt.Errorf("%s answered %s: %s", r.to.Redacted(), res.Status, answer.String())
}
