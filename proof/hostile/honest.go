package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
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

func newHonest(url string) *honest {
	return &honest{
		url: url, body: works.Lines(lines, 100),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: posters + claimers}},
	}
}

// window holds the observations of honest clients in a period.
type window struct {
	took          time.Duration
	posts         int
	claims        []time.Duration
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

func (w *window) quantile(q float64) time.Duration {
	if len(w.claims) == 0 {
		return 0
	}
	slices.Sort(w.claims)
	return w.claims[min(len(w.claims)-1, int(q*float64(len(w.claims))))]
}

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

// load is the resources that the server occupies.
type load struct {
	resident                int64 // bytes
	goroutines, descriptors int
}

func (l *load) most(o load) {
	l.resident = max(l.resident, o.resident)
	l.goroutines = max(l.goroutines, o.goroutines)
	l.descriptors = max(l.descriptors, o.descriptors)
}

// watch measures the server until ctx is done, and returns the maxima.
func watch(ctx context.Context, s *daybooktest.Process) (most load, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		now, _, err := rig.Resident(s)
		if err != nil {
			return most, err
		}
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Pid()))
		if err != nil {
			return most, err
		}
		l := load{resident: now, descriptors: len(files)}
		// With many silent connections, this request may have to wait.
		if resp, err := client.Get(s.URL() + "/metrics"); err == nil {
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if _, rest, found := strings.Cut(string(text), "\ngo_goroutines "); err == nil && found {
				number, _, _ := strings.Cut(rest, "\n")
				if l.goroutines, err = strconv.Atoi(number); err != nil {
					return most, err
				}
			}
		}
		most.most(l)
		select {
		case <-ctx.Done():
			return most, nil
		case <-tick.C:
		}
	}
}
