package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestSharesOfFollowers: once two clients have keys, one follows at most half of the logs and results that may be followed.
func TestSharesOfFollowers(t *testing.T) {
	s := newTenants(t)
	id := s.post("/jobs/create", `{"client":"acme","type":"x"}`, as(s.acme)...).object(http.StatusCreated)["job_id"].(string)
	batch := s.post("/jobs/create", `[{"client":"acme","type":"x"}]`, as(s.acme)...).object(http.StatusCreated)["batch_id"].(string)
	of := map[string]struct{ job, batch string }{
		s.acme: {id, batch}, s.other: {s.job, s.batch}, s.admin: {s.job, s.batch},
	}
	for _, test := range []struct {
		followers *followers
		path      func(key string) string
	}{
		{&s.server.logs.readers, func(key string) string { return "/jobs/" + of[key].job + "/log?follow=true" }},
		{&s.server.resultReaders, func(key string) string { return "/batches/" + of[key].batch + "/results?follow=true" }},
	} {
		testkit.NoError(t, test.followers.places.Take(job.Owner{Client: "acme"}, test.followers.most/2, test.followers.most))
		refused := s.get(test.path(s.acme), as(s.acme)...)
		refused.refused(http.StatusTooManyRequests, web.CodeOverloaded)
		testkit.Contains(t, refused.body, "client acme has as many")
		for i, key := range []string{s.other, s.admin} {
			sent, _ := s.ask(http.MethodGet, test.path(key), key, "")
			testkit.Equal(t, testkit.Must(http.ReadResponse(sent, nil))(t).StatusCode, http.StatusOK)
			testkit.Equal(t, test.followers.now(), test.followers.most/2+int64(i)+1)
		}
	}
}

// TestSharesOfStreams: once two clients have keys, one has at most half of the places for streams. If it has them, another stream of it
// ends only one of its own that is not in use.
func TestSharesOfStreams(t *testing.T) {
	r := start(t, func(o *setup) { o.MaxConnections = 16 }) // 12 of them for streams
	admin := r.newKey("", "boss", "admin")
	key := func(client string) string {
		return r.post("/keys", `{"name":"`+client+`","roles":["worker"],"clients":["`+client+`"]}`, as(admin)...).object(http.StatusCreated)["key"].(string)
	}
	acme, other := key("acme"), key("other")
	with := func(key string) *websocket.DialOptions {
		return &websocket.DialOptions{Subprotocols: []string{stream.Protocol}, HTTPHeader: http.Header{"Authorization": {"Bearer " + key}}}
	}
	open := func(key string) *streamClient {
		return r.open(func(o *websocket.DialOptions) { o.HTTPHeader = with(key).HTTPHeader })
	}
	for i := range 6 {
		c := open(acme)
		c.ok(c.send("hello", fmt.Sprintf(`{"runner_id":"acme:%d"}`, i)))
	}
	_, answer, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(r.url, "http")+"/stream", with(acme))
	testkit.Holds(t, err != nil && answer.StatusCode == http.StatusServiceUnavailable, err)
	others := open(other)
	time.Sleep(web.IdleGrace) // real time: a real connection must stay silent for this time
	open(acme)                // in the place of one of the six
	others.ok(others.send("hello", `{"runner_id":"other:1"}`))
}
