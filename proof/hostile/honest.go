package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
)

// honest is a set of working clients. Some post lines to their queue, some claim from it and complete.
type honest struct {
	url  string
	http *http.Client
	body []byte
}

const (
	posters  = 2
	claimers = 2
	lines    = 100 // in a post
	perClaim = 10
)

func newHonest(url string, secure *tls.Config) *honest {
	return &honest{
		url: url, body: works.Lines(lines, 100),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: posters + claimers, TLSClientConfig: secure}},
	}
}

// window holds the observations of honest clients in a period.
type window struct {
	took          time.Duration
	posts         int
	claims        matrix.Latencies
	refused, lost int // answers that are no success; requests without an answer
}

func (w *window) add(o window) {
	w.took += o.took
	w.posts += o.posts
	w.claims = append(w.claims, o.claims...)
	w.refused += o.refused
	w.lost += o.lost
}

func (w *window) rate() float64 { return float64(w.posts) / w.took.Seconds() }

var errRefused = errors.New("refused")

func (h *honest) post(ctx context.Context, path, kind string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := h.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%w: %d %.200s", errRefused, resp.StatusCode, text)
	}
	return text, err
}

var claimID = regexp.MustCompile(`"claim_id":"([^"]+)"`)

// work lets the honest clients work for a while.
func (h *honest) work(ctx context.Context, d time.Duration) (sum window, first error) {
	began := time.Now()
	over := began.Add(d) // waits for outstanding requests, since kept connections are part of the measurement
	var mu sync.Mutex
	var all sync.WaitGroup
	run := func(step func(w *window) error) {
		all.Go(func() {
			var w window
			for time.Now().Before(over) {
				err := step(&w)
				if err == nil {
					continue
				}
				if errors.Is(err, errRefused) {
					w.refused++
				} else {
					w.lost++
				}
				mu.Lock()
				first = errors.Join(first, err)
				mu.Unlock()
			}
			mu.Lock()
			sum.add(w)
			mu.Unlock()
		})
	}
	for range posters {
		run(func(w *window) error {
			if _, err := h.post(ctx, "/honest/job/work/add", "text/plain", h.body); err != nil {
				return err
			}
			w.posts++
			return nil
		})
	}
	for range claimers {
		run(func(w *window) error {
			start := time.Now()
			text, err := h.post(ctx, "/jobs/claim", "application/json", fmt.Appendf(nil, `{"runner_id":"honest","clients":["honest"],"max":%d}`, perClaim))
			if err != nil {
				return err
			}
			w.claims = append(w.claims, time.Since(start))
			if id := claimID.FindSubmatch(text); id != nil {
				_, err = h.post(ctx, "/jobs/complete", "application/json", fmt.Appendf(nil, `{"claim_id":"%s","status":"completed"}`, id[1]))
			}
			return err
		})
	}
	all.Wait()
	sum.took = time.Since(began)
	return sum, first
}

// usage is the resources that the server occupies.
type usage struct {
	resident                int64 // bytes
	goroutines, descriptors int
}

func (u *usage) most(o usage) {
	u.resident = max(u.resident, o.resident)
	u.goroutines = max(u.goroutines, o.goroutines)
	u.descriptors = max(u.descriptors, o.descriptors)
}

// watch measures the server until ctx is done, and returns the maxima.
func watch(ctx context.Context, s *daybooktest.Process) (most usage, err error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: s.TLS}}
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		var now usage
		if now.resident, _, err = rig.Resident(s.Pid()); err != nil {
			return most, err
		}
		if now.descriptors, err = rig.Descriptors(s.Pid()); err != nil {
			return most, err
		}
		// With many silent connections, this request may have to wait for too long.
		metrics, _ := load.Metrics(context.WithoutCancel(ctx), &client, s.URL(), "")
		now.goroutines = int(metrics["go_goroutines"])
		most.most(now)
		select {
		case <-ctx.Done():
			return most, nil
		case <-tick.C:
		}
	}
}
