package limits

import (
	"bytes"
	"fmt"
	"net/http"
)

// amounts say how much there is of each thing.
type amounts struct {
	values   int // thousands of jobs with a value of meta each
	queues   int // thousands of queues with a job each, if the server takes as many
	lines    int // lines of a batch
	groups   int // batches of a thousand groups, with 16 entries of meta each
	payloads int // jobs of 4 MiB
	keys     int // creates of one job with an idempotency key each
	sessions int
	claims   int // of one job, by as many runners
}

const (
	ndjson = "application/x-ndjson"
	plain  = "text/plain"
)

// fill creates all that, and returns how many jobs there are.
func (s *server) fill(n amounts) (jobs int) {
	s.t.Helper()
	add := func(what string, count, each int, do func(i int) bool) int {
		s.t.Helper()
		done := 0
		s.filled(what, func() { done = s.each(count, do) })
		jobs += done * each
		s.t.Logf("%s: %d of %d, %d MiB", what, done*max(1, each), count*max(1, each), s.resident()>>20)
		return done
	}
	add("fill: values of meta", n.values, 1000, func(i int) bool {
		return s.create("/jobs/create", ndjson, valuesBody("values", i))
	})
	add("fill: lines of a batch", 1, n.lines, func(int) bool {
		return s.create("/acme/job/lines/add", plain, bytes.Repeat([]byte("p\n"), n.lines))
	})
	add("fill: groups", n.groups, 1000, func(i int) bool { return s.create("/jobs/create", ndjson, groupsBody("groups", i)) })
	add("fill: payloads of 4 MiB", n.payloads, 1, func(int) bool { return s.create("/acme/job/large/add", plain, largeBody) })
	add("fill: idempotency keys", n.keys, 1, func(i int) bool {
		return s.create("/jobs/create", "application/json", []byte(`{"client":"acme","type":"keyed","payload":"p"}`), "Idempotency-Key", fmt.Sprint("key ", i))
	})
	add("fill: sessions", n.sessions, 0, func(i int) bool {
		status, answer, err := s.send(http.MethodPost, "/sessions", "application/json", fmt.Appendf(nil, `{"runner_id":"session%d"}`, i))
		if err != nil || status != http.StatusCreated {
			s.t.Errorf("open a session: %d %.200s, %v", status, answer, err)
		}
		return err == nil
	})
	add("fill: claims of runners", n.claims, 0, func(i int) bool {
		status, answer, err := s.send(http.MethodPost, "/jobs/claim", "application/json", fmt.Appendf(nil, `{"runner_id":"runner%d","types":["values"],"lease_ms":86400000}`, i))
		if err != nil || status != http.StatusOK {
			s.t.Errorf("claim: %d %.200s, %v", status, answer, err)
		}
		return err == nil
	})
	// These come last, because a server that has no room for more queues refuses jobs in new ones.
	queues := add("fill: queues", n.queues, 1000, func(i int) bool {
		return s.create("/jobs/create", ndjson, queuesBody("c", i))
	})
	if queues < n.queues {
		s.t.Logf("the server refuses more than %d thousand queues", queues)
	}
	return jobs
}

// valuesBody has a thousand jobs with a value of meta each.
func valuesBody(typ string, i int) []byte {
	var body bytes.Buffer
	for k := range 1000 {
		fmt.Fprintf(&body, `{"client":"acme","type":"%s","payload":"p","meta":{"order":"%016d"}}`+"\n", typ, i*1000+k)
	}
	return body.Bytes()
}

// queuesBody has a job in each of a thousand queues.
func queuesBody(client string, i int) []byte {
	var body bytes.Buffer
	for k := range 1000 {
		fmt.Fprintf(&body, `{"client":"%s%d","type":"t%d","payload":"p"}`+"\n", client, i*10+k/100, k%100)
	}
	return body.Bytes()
}

// groupsBody has a job of each of a thousand groups, with as much meta as there may be in 8 MiB.
func groupsBody(typ string, i int) []byte {
	var body bytes.Buffer
	for k := range 1000 {
		fmt.Fprintf(&body, `{"client":"acme","type":"%s","payload":"p","priority":%d,"meta":{"k0":"%d"`, typ, k%10, k)
		for entry := 1; entry < 16; entry++ {
			fmt.Fprintf(&body, `,"k%d":"%0250d"`, entry, i*1000+k)
		}
		body.WriteString("}}\n")
	}
	return body.Bytes()
}

var largeBody = append(bytes.Repeat([]byte("p"), 4<<20-1), '\n')
