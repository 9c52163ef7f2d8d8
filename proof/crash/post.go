package crash

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"strings"

	"github.com/daybookq/daybook/job"
)

// form is the form in which jobs are posted.
type form int

const (
	asLines form = iota // one post of many lines
	asText              // one job, a JSON string
	asValue             // one job, any JSON value
	asBytes             // one job, base64
	asArray             // a JSON array of texts
	forms
)

// post is one create. Its payloads are functions of its tag, so it need not keep them.
type post struct {
	tag         string
	form        form
	lines       int
	size        int // bytes of filler, at most
	maxAttempts int32
	leaseMs     int64
	delayMs     int64
	keyed       bool // has an idempotency key, and is repeated until it is answered
	follows     bool // its jobs have an on_complete

	// Fields of a chained job (chains.go):
	chained bool
	text    []byte // the payload of a job that follows an earlier job

	// The lock of the history guards these:
	call, ret    int64
	acknowledged bool
	first        job.ID // id of its first job; zero: it is not known to be stored
	events       [][]event
}

// alone reports whether its job belongs to no batch, because it is chained, or was created alone and without a key. Its
// id may have any line, since the server writes such jobs of several requests together.
func (p *post) alone() bool { return p.chained || !p.keyed && p.form != asLines && p.form != asArray }

// id returns the id of the job in a line of the post.
func (p *post) id(line int) job.ID { return p.first.WithLine(p.first.Line() + line) }

// batch returns the batch_id that documents of its jobs must show, zero for null.
func (p *post) batch() job.ID {
	if p.alone() {
		return job.ID{}
	}
	return p.first
}

// payload returns the payload of a line as the server stores it: a text as its bytes, a JSON value as it was sent.
func (p *post) payload(line int) []byte {
	if p.chained && !strings.HasPrefix(p.tag, "then-") {
		return p.text
	}
	hash := fnv.New64a()
	fmt.Fprint(hash, p.tag, "/", line)
	rng := rand.New(rand.NewPCG(hash.Sum64(), 0))
	head := fmt.Sprintf("<%s>%d ", p.tag, line)
	filler := make([]byte, rng.IntN(p.size+1))
	switch p.form {
	case asBytes:
		for i := range filler {
			filler[i] = byte(rng.Uint32())
		}
	default:
		// Some words are also parts of a journal. A reader of the journal must not take a payload for a record.
		words := []string{"#:end crc=00000000", "#:create v=1", "é", " ", "\r", "x", "0123456789", "日本"}
		if p.form == asLines && rng.IntN(20) == 0 {
			words = append(words, "\xff", "\x00")
		}
		var b strings.Builder
		for b.Len() < len(filler) {
			b.WriteString(words[rng.IntN(len(words))])
		}
		filler = []byte(b.String())
	}
	text := append([]byte(head), filler...)
	switch p.form {
	case asText, asArray:
		return bytes.ToValidUTF8(text, nil)
	case asValue:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(map[string]any{"n": line, "of": string(bytes.ToValidUTF8(text, nil)), "big": json.Number("12345678901234567890.0")}); err != nil {
			panic(err)
		}
		return bytes.TrimSpace(b.Bytes())
	}
	return text
}

// tagOf returns the tag in a payload.
func tagOf(payload []byte) string {
	_, rest, _ := bytes.Cut(payload, []byte("<"))
	tag, _, _ := bytes.Cut(rest, []byte(">"))
	return string(tag)
}

// request returns the request that creates the jobs.
func (p *post) request(queue string) (path, contentType string, body []byte) {
	if p.form == asLines {
		path = fmt.Sprintf("/add?jobtype=%s&lease_ms=%d&max_attempts=%d", queue, p.leaseMs, p.maxAttempts)
		if p.delayMs > 0 {
			path += fmt.Sprint("&delay_ms=", p.delayMs)
		}
		for line := range p.lines {
			body = append(append(body, p.payload(line)...), '\n')
		}
		return path, "text/plain", body
	}
	fields := map[string]any{"type": queue, "lease_ms": p.leaseMs, "max_attempts": p.maxAttempts}
	if p.delayMs > 0 {
		fields["delay_ms"] = p.delayMs
	}
	if p.form == asArray {
		list := make([]map[string]any, p.lines)
		for line := range list {
			list[line] = maps.Clone(fields)
			list[line]["payload"] = string(p.payload(line))
			if p.follows {
				list[line]["on_complete"], list[line]["meta"] = p.followOn(queue, line)
			}
		}
		return "/jobs/create", "application/json", marshal(list)
	}
	if p.follows {
		fields["on_complete"], fields["meta"] = p.followOn(queue, 0)
	}
	switch payload := p.payload(0); p.form {
	case asText:
		fields["payload"] = string(payload)
	case asBytes:
		fields["payload_b64"] = base64.StdEncoding.EncodeToString(payload)
	}
	body = marshal(fields)
	if p.form == asValue { // unchanged: Marshal would format it again
		body = append(append(append(body[:len(body)-1], `,"payload":`...), p.payload(0)...), '}')
	}
	return "/jobs/create", "application/json", body
}
