package runners

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"

	"github.com/daybookq/daybook/client"
)

// The types of jobs. chains says whether the handler of a type creates a job of type next with the same payload.
const (
	treeType   = "tree"
	linesType  = "lines"
	scriptType = "script"
	webType    = "web"
	hookType   = "hook"
	guestType  = "guest"
	blobType   = "blob"
	nextType   = "next"
	afterType  = "after"
)

var chains = map[string]bool{treeType: true, linesType: true, scriptType: true, webType: true, hookType: false, guestType: false, blobType: false}

// longOutput is appended by the guest to some of the outputs that are blobs.
var longOutput = bytes.Repeat([]byte("x"), 300_000)

// outputOf returns the output of the handlers for a payload. The output of blobType is in a blob.
func outputOf(typ, payload string) string {
	if typ == blobType { // the same guest
		typ = guestType
	}
	return typ + " " + payload
}

// blobOf returns the output of a job of blobType: outputOf's result, and sometimes longOutput after it.
func blobOf(payload string) []byte {
	output := []byte(outputOf(blobType, payload))
	sum := 0
	for _, c := range output {
		sum += int(c)
	}
	if sum%16 == 0 && strings.Contains(payload, "-blob-") {
		output = append(output, longOutput...)
	}
	return output
}

// addressOf returns the address of the blob with the output of a job of blobType, or "" for another job.
func addressOf(typ, payload string) string {
	if typ != blobType {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(blobOf(payload)))
}

// post is a create of a producer.
type post struct {
	typ          string
	payloads     []string // no two payloads of a run are equal
	follow       bool     // with an on_complete
	acknowledged bool
}

// account is the knowledge of the producers. Its methods may be called from several goroutines.
type account struct {
	mu    sync.Mutex
	posts []post
}

func (a *account) add(p post) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.posts = append(a.posts, p)
}

// acknowledged returns how many jobs were acknowledged.
func (a *account) acknowledged() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.posts {
		if p.acknowledged {
			n += len(p.payloads)
		}
	}
	return n
}

// tally counts the observations of a check.
type tally struct {
	Acknowledged, Jobs, Guests, Next, After int
	Runs, Repeated                          int // runs, and jobs that ran more than once
	Lost, Abandoned                         int // runs whose runner vanished, and runs whose lease ended
}

// named identifies a job by its type and payload, which no two jobs share.
type named struct{ typ, payload string }

// check compares all jobs of a server with the posts. It returns its findings as sentences.
func (a *account) check(jobs []*client.Job) (tally, []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := checker{found: map[named]int{}, expected: map[named]bool{}}
	for _, j := range jobs {
		c.look(j)
	}
	for _, p := range a.posts {
		for _, payload := range p.payloads {
			c.expect(&p, payload)
		}
	}
	for of, n := range c.found {
		if !c.expected[of] {
			c.wrong("%d jobs of type %s with the payload %.100q, which nobody can have created", n, of.typ, of.payload)
		}
	}
	return c.tally, c.problems
}

type checker struct {
	tally    tally
	found    map[named]int
	expected map[named]bool
	problems []string
}

func (c *checker) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// look checks one job, without the rest.
func (c *checker) look(j *client.Job) {
	payload := string(j.Payload)
	c.found[named{j.Type, payload}]++
	c.tally.Runs += j.RunAttempts
	if j.RunAttempts > 1 {
		c.tally.Repeated++
	}
	switch j.Type {
	case nextType:
		c.tally.Next++
	case afterType:
		c.tally.After++
	case guestType, blobType:
		c.tally.Guests++
		c.tally.Jobs++
	default:
		c.tally.Jobs++
	}
	if j.Status != "completed" || j.Code != "ok" {
		c.wrong("%s %.100q is %s (%s) after %d runs: %.200s", j.Type, payload, j.Status, j.Code, j.RunAttempts, j.Error)
		return
	}
	output, address := outputOf(j.Type, payload), addressOf(j.Type, payload)
	if address != "" {
		output = ""
	}
	if string(j.Output) != output || j.OutputAddr != address {
		c.wrong("%s %.100q has the output %.100q at %q, not %q at %q", j.Type, payload, j.Output, j.OutputAddr, output, address)
	}
	// All runs but one failed. The server keeps the newest 20 of them.
	if j.RunAttempts <= 20 && j.RunAttempts != len(j.Attempts)+1 {
		c.wrong("%s %.100q ran %d times, and %d of the runs did not succeed", j.Type, payload, j.RunAttempts, len(j.Attempts))
	}
	for _, run := range j.Attempts {
		if run.Code == "ok" {
			c.wrong("%s %.100q has more than one outcome", j.Type, payload)
		}
		switch run.Why {
		case "runner_lost":
			c.tally.Lost++
		case "abandoned":
			c.tally.Abandoned++
		}
	}
}

// expect checks that the job of a posted payload exists once, and its chained jobs, too.
func (c *checker) expect(p *post, payload string) {
	first := named{p.typ, payload}
	c.expected[first] = true
	n := c.found[first]
	if p.acknowledged {
		c.tally.Acknowledged++
	}
	switch {
	case n == 0 && p.acknowledged:
		c.wrong("%s %.100q is lost", p.typ, payload)
	case n > 1:
		c.wrong("%s %.100q is there %d times", p.typ, payload, n)
	}
	if n == 0 {
		return // nobody can have created chained jobs of a job that does not exist
	}
	if chains[p.typ] {
		c.expectChained(named{nextType, payload}, p.typ)
	}
	if p.follow {
		c.expectChained(named{afterType, outputOf(p.typ, payload)}, p.typ)
	}
}

func (c *checker) expectChained(of named, parent string) {
	c.expected[of] = true
	if n := c.found[of]; n != 1 {
		c.wrong("there are %d jobs of type %s with the payload %.100q, which a job of type %s created once", n, of.typ, of.payload, parent)
	}
}
