package client_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/encryption"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// encrypted returns a client of a server with encryption keys; the first encrypts.
func encrypted(t *testing.T, s *daybooktest.Server, keys ...string) *client.Client {
	t.Helper()
	codec := testkit.Must(encryption.Parse([]byte(strings.Join(keys, "\n"))))(t)
	return client.New(s.URL, client.Options{Codec: codec})
}

// stored checks that the server has a content in encrypted form.
func stored(t *testing.T, kind client.Kind, content []byte, part string) {
	t.Helper()
	testkit.Holds(t, kind == client.Text && strings.HasPrefix(string(content), "dbe1."+part+"."), "stored as", kind, string(content))
}

// TestEncrypted: the server has neither payloads nor outputs nor errors of a client with a Codec, in each kind; the client
// reads them as they were.
func TestEncrypted(t *testing.T) {
	s := daybooktest.Start(t)
	c, ctx := encrypted(t, s, encryption.NewKey()), t.Context()
	for _, want := range []client.NewJob{
		client.TextJob("x", "secret"), client.JSONJob("x", []byte(`{"a":1.0}`)), {Type: "x", Payload: []byte{0, 0xff}, Kind: client.Bytes},
		{Type: "x", Payload: []byte("secret")}, {Type: "x"}, client.JSONJob("x", []byte("null")),
	} {
		made := testkit.Must(c.Create(ctx, want))(t)
		raw := testkit.Must(s.Client.Job(ctx, made.ID))(t)
		kind := want.Kind.Of(want.Payload)
		if string(want.Payload) == "null" {
			kind, want = client.None, client.NewJob{Type: "x"}
		}
		if kind != client.None {
			stored(t, raw.Kind, raw.Payload, "p")
		}
		claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r"}))(t)
		testkit.MustEqual(t, len(claim.Jobs), 1)
		_, err := c.Complete(ctx, made.ID, claim.ID, client.Outcome{Code: "failed", Error: "hidden", Output: want.Payload, OutputKind: want.Kind.Of(want.Payload)})
		testkit.NoError(t, err)
		raw = testkit.Must(s.Client.Job(ctx, made.ID))(t)
		if kind != client.None {
			stored(t, raw.OutputKind, raw.Output, "o")
		}
		stored(t, client.Text, []byte(raw.Error), "e")
		testkit.Lacks(t, string(raw.Text), "secret", "hidden")
		got := testkit.Must(c.Job(ctx, made.ID))(t)
		for _, j := range []*client.Job{made, claim.Jobs[0], got} {
			testkit.Holds(t, j.Kind == kind && bytes.Equal(j.Payload, want.Payload) && j.Undecodable == nil, j.Kind, j.Payload, j.Undecodable)
		}
		testkit.Holds(t, got.OutputKind == kind && bytes.Equal(got.Output, want.Payload) && got.Error == "hidden" && got.Attempts[0].Error == "hidden", got)
		out := testkit.Must(c.Output(ctx, made.ID, 0))(t)
		testkit.Holds(t, out.Kind == kind && bytes.Equal(out.Bytes, want.Payload), out)
		same := testkit.Must(s.Client.Create(ctx, want))(t)
		claim = testkit.Must(s.Client.Claim(ctx, client.ClaimRequest{RunnerID: "r"}))(t)
		testkit.Must(s.Client.Complete(ctx, same.ID, claim.ID, client.Outcome{Code: "failed", Error: "hidden", Output: want.Payload, OutputKind: want.Kind.Of(want.Payload)}))(t)
		same = testkit.Must(s.Client.Job(ctx, same.ID))(t)
		testkit.Equal(t, masked(got.Text), masked(same.Text), "the document, and that of the same job without a Codec")
		listed := 0
		for j, err := range c.Jobs(ctx, client.JobsQuery{Type: "x"}) {
			testkit.NoError(t, err)
			if j.ID == made.ID {
				listed++
				testkit.Holds(t, bytes.Equal(j.Payload, want.Payload) && bytes.Equal(j.Output, want.Payload) && j.Error == "hidden", j)
			}
		}
		testkit.Equal(t, listed, 1)
	}
}

// masked returns a document without ids and times.
func masked(text []byte) string {
	return regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b1\d{12}\b`).ReplaceAllString(strings.TrimSpace(string(text)), "…")
}

// TestEncryptedBulk: jobs of Add, in lines and JSON, of CreateMany, of batches and of joined creates are encrypted, and so are
// the results of a batch.
func TestEncryptedBulk(t *testing.T) {
	s := daybooktest.Start(t)
	key := encryption.NewKey()
	c, ctx := encrypted(t, s, key), t.Context()
	lines := "one\r\n\r\ntwo\r\nthree"
	for range 2 { // the repeat stores nothing
		added := testkit.Must(c.Add(ctx, strings.NewReader(lines), client.AddOptions{Type: "lines", StripCR: true, Key: "k"}))(t)
		testkit.Equal(t, added.Jobs, 3)
		added = testkit.Must(c.Add(ctx, strings.NewReader("\"four\"\nnull\n{\"five\":5}\n"), client.AddOptions{Type: "values", Kind: client.JSON, Key: "v"}))(t)
		testkit.Equal(t, added.Jobs, 3)
		testkit.Must(c.Create(ctx, client.NewJob{Type: "one", Payload: []byte("six"), Key: "c"}))(t)
		testkit.Must(c.CreateMany(ctx, []client.NewJob{client.TextJob("many", "seven"), client.TextJob("many", "eight")}, client.CreateOptions{Key: "m"}))(t)
	}
	c = encrypted(t, s, key) // the same key makes the same repeats in another process
	testkit.Must(c.Create(ctx, client.NewJob{Type: "one", Payload: []byte("six"), Key: "c"}))(t)
	var creates sync.WaitGroup
	for range 50 {
		creates.Go(func() {
			j, err := c.Create(ctx, client.TextJob("joined", "nine"))
			testkit.Holds(t, err == nil && string(j.Payload) == "nine" && j.Kind == client.Text, j, err)
		})
	}
	creates.Wait()
	want := map[string][]string{"lines": {"one", "two", "three"}, "values": {"four", "", `{"five":5}`}, "one": {"six"}, "many": {"seven", "eight"}}
	for range 50 {
		want["joined"] = append(want["joined"], "nine")
	}
	for typ, payloads := range want {
		var got []string
		for j, err := range c.Jobs(ctx, client.JobsQuery{Type: typ, PageSize: 1000}) {
			testkit.NoError(t, err)
			testkit.NoError(t, j.Undecodable)
			got = append(got, string(j.Payload))
		}
		testkit.DeepEqual(t, got, payloads, typ)
		for j, err := range s.Client.Jobs(ctx, client.JobsQuery{Type: typ}) {
			testkit.NoError(t, err)
			if j.Kind != client.None {
				stored(t, j.Kind, j.Payload, "p")
			}
		}
	}
	batch := testkit.Must(c.CreateBatch(ctx, client.NewBatch{Type: "batch", Open: true}, []client.NewJob{client.TextJob("", "a")}))(t)
	testkit.Must(c.AddToBatch(ctx, batch.BatchID, []client.NewJob{client.TextJob("", "b")}, client.CreateOptions{}))(t)
	testkit.Must(c.CloseBatch(ctx, batch.BatchID))(t)
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"batch"}, Max: 2}))(t)
	testkit.MustEqual(t, len(claim.Jobs), 2)
	outcomes := []client.JobOutcome{
		{JobID: claim.Jobs[0].ID, Outcome: client.Outcome{Output: []byte("A")}}, {JobID: claim.Jobs[1].ID, Outcome: client.Outcome{Code: "failed", Error: "B"}},
	}
	for range 2 { // a repeated report is no other outcome
		for _, r := range testkit.Must(c.CompleteMany(ctx, claim.ID, outcomes))(t) {
			testkit.NoError(t, r.Err())
		}
	}
	var results []client.BatchResult
	for r, err := range c.Results(ctx, batch.BatchID, client.ResultsQuery{}) {
		testkit.NoError(t, err)
		results = append(results, r)
	}
	testkit.Holds(t, len(results) == 2 && string(results[0].Output) == "A" && results[1].Error == "B" && results[1].Undecodable == nil, results)
	other := encrypted(t, s, encryption.NewKey())
	for r, err := range other.Results(ctx, batch.BatchID, client.ResultsQuery{}) {
		testkit.NoError(t, err)
		testkit.Failed(t, r.Undecodable, client.ErrUndecodable, encryption.ErrNoKey, r.JobID)
		testkit.Equal(t, len(r.Output), 0)
	}
	ended := testkit.Must(c.AwaitBatch(ctx, batch.BatchID))(t)
	testkit.Holds(t, ended.Error == "B" && strings.Contains(string(ended.Text), `"error":"B"`), ended.Error, string(ended.Text))
}

// TestWrongEncryptionKey: what another key has encrypted, and what is not encrypted, is a named error, and the content is missing.
func TestWrongEncryptionKey(t *testing.T) {
	s := daybooktest.Start(t)
	before, after := encryption.NewKey(), encryption.NewKey()
	c, ctx := encrypted(t, s, before), t.Context()
	made := testkit.Must(c.Create(ctx, client.NewJob{Type: "x", Payload: []byte("secret"), UniqueKey: "u"}))(t)
	other := encrypted(t, s, after)
	got, err := other.Job(ctx, made.ID)
	testkit.Failed(t, err, client.ErrUndecodable, encryption.ErrNoKey, made.ID)
	testkit.Holds(t, got.Payload == nil && got.Kind == client.None, got)
	testkit.Contains(t, string(got.Text), `"payload":null`, `"type":"x"`, `"undecodable":{"payload":"the key with which it is encrypted is missing`)
	testkit.Lacks(t, string(got.Text), "dbe1.")
	existing := testkit.Must(other.Create(ctx, client.NewJob{Type: "x", Payload: []byte("y"), UniqueKey: "u"}))(t)
	testkit.Holds(t, existing.Existing && errors.Is(existing.Undecodable, client.ErrUndecodable), existing)
	claim := testkit.Must(other.Claim(ctx, client.ClaimRequest{RunnerID: "r"}))(t)
	testkit.Failed(t, claim.Jobs[0].Undecodable, client.ErrUndecodable)
	testkit.Must(other.Release(ctx, made.ID, claim.ID, client.Unget, nil))(t)
	rotated := encrypted(t, s, after, before)
	testkit.Equal(t, string(testkit.Must(rotated.Job(ctx, made.ID))(t).Payload), "secret")

	plain := testkit.Must(s.Client.Create(ctx, client.TextJob("plain", "forged")))(t)
	got, err = c.Job(ctx, plain.ID)
	testkit.Failed(t, err, client.ErrUndecodable, encryption.ErrNotEncrypted)
	testkit.Equal(t, len(got.Payload), 0)
	plain = testkit.Must(s.Client.Create(ctx, client.JSONJob("plain", []byte("{}"))))(t)
	testkit.Fails(c.Job(ctx, plain.ID))(t, client.ErrUndecodable)
	output := testkit.Must(s.Client.Create(ctx, client.TextJob("output", string(testkit.Must(s.Client.Job(ctx, made.ID))(t).Payload))))(t)
	held := testkit.Must(s.Client.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"output"}}))(t)
	_, err = s.Client.Complete(ctx, output.ID, held.ID, client.Outcome{Output: held.Jobs[0].Payload})
	testkit.NoError(t, err)
	testkit.Fails(c.Output(ctx, output.ID, 0))(t, client.ErrUndecodable, encryption.ErrAltered) // a payload in the place of an output
}

// TestEncryptedChain: the job that follows gets the output of its predecessor as payload, and chained jobs are encrypted.
func TestEncryptedChain(t *testing.T) {
	s := daybooktest.Start(t)
	c, ctx := encrypted(t, s, encryption.NewKey()), t.Context()
	testkit.Must(c.Create(ctx, client.NewJob{Type: "first", Payload: []byte("1"), Attributes: client.Attributes{OnComplete: &client.FollowOn{Type: "second"}}}))(t)
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"first"}}))(t)
	o := client.Outcome{Output: []byte("2"), Then: []client.NewJob{client.TextJob("third", "3")}}
	testkit.Must(c.Complete(ctx, claim.Jobs[0].ID, claim.ID, o))(t)
	testkit.Must(c.Complete(ctx, claim.Jobs[0].ID, claim.ID, o))(t) // a repeat
	for typ, want := range map[string]string{"second": "2", "third": "3"} {
		claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{typ}, Wait: time.Minute}))(t)
		testkit.Holds(t, len(claim.Jobs) == 1 && string(claim.Jobs[0].Payload) == want, typ, claim.Jobs[0])
		raw := testkit.Must(s.Client.Job(ctx, claim.Jobs[0].ID))(t)
		testkit.Holds(t, strings.HasPrefix(string(raw.Payload), "dbe1."), string(raw.Payload))
	}
}

// TestEncryptedLimits: an error that is too long is cut before it is encrypted; the longest payload is accepted and one byte
// more is refused before it is sent.
func TestEncryptedLimits(t *testing.T) {
	s := daybooktest.Start(t)
	c, ctx := encrypted(t, s, encryption.NewKey()), t.Context()
	most := c.MaxContent(job.MaxPayloadBytes)
	testkit.Holds(t, c.Codec().EncodedLen(most) <= job.MaxPayloadBytes && c.Codec().EncodedLen(most+1) > job.MaxPayloadBytes, most)
	made := testkit.Must(c.Create(ctx, client.TextJob("x", strings.Repeat("x", most))))(t)
	testkit.Fails(c.Create(ctx, client.TextJob("x", strings.Repeat("x", most+1))))(t, client.ErrTooLarge)
	testkit.Fails(c.Add(ctx, strings.NewReader(strings.Repeat("x", most+1)), client.AddOptions{}))(t, client.ErrTooLarge, "line 1")
	testkit.Fails(c.Create(ctx, client.NewJob{Type: "x", Kind: client.Text, Payload: []byte{0xff}}))(t, client.ErrBadRequest)
	testkit.Fails(c.Create(ctx, client.JSONJob("x", []byte("{"))))(t, client.ErrBadRequest)
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r"}))(t)
	testkit.Must(c.Complete(ctx, made.ID, claim.ID, client.Outcome{Code: "failed", Error: strings.Repeat("ü", job.MaxErrorBytes)}))(t)
	got := testkit.Must(c.Job(ctx, made.ID))(t)
	longest := c.MaxContent(job.MaxErrorBytes)
	testkit.Holds(t, len(got.Error) == longest-longest%2 && strings.Trim(got.Error, "ü") == "", len(got.Error), longest)

	short := strings.Repeat("x\n", 300_000) // each line is 80 times as long when it is encrypted
	added := testkit.Must(c.Add(ctx, strings.NewReader(short), client.AddOptions{Type: "short"}))(t)
	testkit.Equal(t, added.Jobs, 300_000)
}
