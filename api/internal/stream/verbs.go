package stream

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// streamVerb is a kind of request in a stream. The goroutine that reads the stream calls begin, so the creates of a
// stream are stored in their order. The finisher that begin returns waits for the engine and appends the document of
// the answer.
type streamVerb struct {
	name  string
	keyed bool // supports idempotency keys and session numbers
	body  func(r *streamRequest) jsontext.Value
	begin func(t *stream, r *streamRequest) (finisher, error)
}

// finisher waits for the end of a request, and appends the document of its answer. seq is the position of the request's
// command in the journal, or 0 without a command.
type finisher func(b []byte) (doc []byte, seq uint64, err error)

const withKey = true

// streamVerbs are all verbs. In metrics, verbUnknown means a request without one of them.
var (
	streamVerbs []*streamVerb
	verbUnknown = &streamVerb{name: "none"}
)

func init() { // the functions refer to streamVerbs through the stream
	streamVerbs = []*streamVerb{
		{"hello", !withKey, func(r *streamRequest) jsontext.Value { return r.Hello }, (*stream).beginHello},
		{"subscribe", !withKey, func(r *streamRequest) jsontext.Value { return r.Subscribe }, (*stream).beginSubscribe},
		{"credit", !withKey, func(r *streamRequest) jsontext.Value { return r.Credit }, (*stream).beginCredit},
		{"unsubscribe", !withKey, func(r *streamRequest) jsontext.Value { return r.Unsubscribe }, (*stream).beginUnsubscribe},
		{"create", withKey, func(r *streamRequest) jsontext.Value { return r.Create }, (*stream).beginCreate},
		{"complete", withKey, func(r *streamRequest) jsontext.Value { return r.Complete }, (*stream).beginComplete},
		{"tickle", !withKey, func(r *streamRequest) jsontext.Value { return r.Tickle }, (*stream).beginTickle},
		{"release", withKey, func(r *streamRequest) jsontext.Value { return r.Release }, (*stream).beginRelease},
		{"begin", !withKey, func(r *streamRequest) jsontext.Value { return r.Begin }, (*stream).beginBegin},
	}
}

// Verbs returns the names of all verbs.
func Verbs() (names []string) {
	for _, v := range streamVerbs {
		names = append(names, v.name)
	}
	return names
}

// verbOf returns the verb of a request, and refuses a request with no verb or several.
func verbOf(r *streamRequest) (*streamVerb, error) {
	found := verbUnknown
	for _, v := range streamVerbs {
		if web.Absent(v.body(r)) {
			continue
		}
		if found != verbUnknown {
			return verbUnknown, web.BadRequest(v.name, fmt.Sprintf("a request has one verb, not both %s and %s", found.name, v.name))
		}
		found = v
	}
	if found == verbUnknown {
		return found, web.BadRequest("", "the request has no verb: one of hello, subscribe, credit, unsubscribe, create, complete, tickle, release and begin is required")
	}
	if !found.keyed && (r.Key != nil || r.Session != nil) {
		return found, web.BadRequest("", found.name+" does not support an idempotency_key or a session; send the request without it")
	}
	if found.name != "create" && r.Batch != nil {
		return found, web.BadRequest("batch", found.name+" does not have the field batch")
	}
	return found, nil
}

// permitted returns the verb of a request, and refuses it unless the key of the stream is good for it now.
func (t *stream) permitted(r *streamRequest) (*streamVerb, error) {
	v, err := verbOf(r)
	if err == nil {
		err = t.authorize(v.name)
	}
	if err == nil && v.name == "create" {
		err = t.s.Rates.MaySend(job.KeyOf(t.ctx))
	}
	return v, err
}

// authorize returns an error unless the key of the stream is good for a verb now. If somebody revoked the key and made another
// one of the same text, the stream does not go on with what the first one was for.
func (t *stream) authorize(verb string) error {
	now, err := t.s.Authorize(t.credentials, t.s.Access[verb])
	if err != nil {
		return err
	}
	if web.Replaced(job.KeyOf(t.ctx), now) {
		return &web.Problem{Status: http.StatusUnauthorized, Code: "key_refused", Detail: "the key of this stream is for something else now; open another stream"}
	}
	return nil
}

// answer appends the whole answer to a request.
func (f finisher) answer(b []byte, n uint64) ([]byte, error) {
	b = strconv.AppendUint(append(b, `{"n":`...), n, 10)
	b = append(b, `,"ok":`...)
	b, seq, err := f(b)
	if err != nil {
		return nil, err
	}
	if seq > 0 {
		b = strconv.AppendUint(append(b, `,"seq":`...), seq, 10)
	}
	return append(b, "}\n"...), nil
}

// nothingToSay is the finisher of requests whose answers have no fields.
func nothingToSay(b []byte) ([]byte, uint64, error) { return append(b, "{}"...), 0, nil }

// once reads the idempotency key or the session number of a request. If path is the path of the HTTP request with the
// same body, the digest is equal, too. A client can then repeat over HTTP a request that it sent in a stream.
func (t *stream) once(r *streamRequest, path, kind, who string, body []byte) (o job.Once, err error) {
	switch {
	case r.Key != nil && r.Session != nil:
		return o, web.BadRequest("session", "a request must not have both an idempotency_key and a session")
	case r.Key != nil:
		if err := web.CheckKey(*r.Key); err != nil {
			return o, err
		}
		o.Scope, o.Key = kind+" "+web.Owner(t.ctx, who), *r.Key
	case r.Session != nil:
		n := r.Session
		if n.ID.IsZero() {
			return o, web.BadRequest("session.id", "session.id is missing")
		}
		if err := job.CheckRange("session.number", n.Number, 1, job.MaxNumber); err != nil {
			return o, web.BadField("session.number", err)
		}
		if err := job.CheckRange("session.slot", n.Slot, 0, job.MaxSlots-1); err != nil {
			return o, web.BadField("session.slot", err)
		}
		o.Session, o.Slot, o.Number = n.ID, int(n.Slot), uint64(n.Number)
	default:
		return o, nil
	}
	o.Digest = web.DigestOf("POST "+path+"?\nfalse false\n", body)
	return o, nil
}

// encoded returns the finisher of a request that needs no command.
func encoded(document any) (finisher, error) {
	return func(b []byte) ([]byte, uint64, error) { return appendDocument(b, document, 0) }, nil
}

func appendDocument(b []byte, document any, seq uint64) ([]byte, uint64, error) {
	text, err := web.EncodeDocument(document)
	if err != nil {
		return nil, 0, err
	}
	return append(b, text[:len(text)-1]...), seq, nil
}

// streamCompletion is the body of complete: the body of POST /jobs/complete, or one outcome with its job_id.
type streamCompletion struct {
	JobID job.ID `json:"job_id"`
	command.CompleteRequest
}

// beginComplete is POST /jobs/complete, and POST /jobs/{id}/complete if the body has a job_id.
func (t *stream) beginComplete(r *streamRequest) (finisher, error) {
	done := command.Completion{Decoder: t.s.Decode, Most: job.MaxOutcomes, Reserve: r.reserve}
	if r.runs {
		runner, err := done.InRuns(r.Complete)
		if err != nil {
			return nil, err
		}
		return t.beginCompletion(r, &done, runner, false)
	}
	var body streamCompletion
	if err := web.DecodeObject(r.Complete, &body); err != nil {
		return nil, err
	}
	one := !body.JobID.IsZero()
	runner, err := body.Runner()
	switch {
	case err != nil:
	case one && (!web.Absent(body.Outcomes) || !web.Absent(body.Except)):
		err = web.BadRequest("job_id", "a request with job_id must not have outcomes or except")
	case one:
		var o job.Outcome
		if o, err = body.OutcomeOf(&done, body.JobID); err == nil {
			done.Add(body.ClaimID, runner, o)
		}
	default:
		err = body.Completion(&done)
	}
	if err != nil {
		return nil, err
	}
	return t.beginCompletion(r, &done, runner, one)
}

func (t *stream) beginCompletion(r *streamRequest, done *command.Completion, runner string, one bool) (finisher, error) {
	return t.beginEnd(done, one, func() (job.Once, error) { return t.once(r, "/jobs/complete", "complete", runner, r.Complete) })
}

// streamRelease is the body of release: the body of POST /jobs/{id}/release, with the job or jobs.
type streamRelease struct {
	JobID  job.ID    `json:"job_id"`
	JobIDs *[]job.ID `json:"job_ids"`
	command.ReleaseRequest
}

// beginRelease is POST /jobs/{id}/release for one or more jobs.
func (t *stream) beginRelease(r *streamRequest) (finisher, error) {
	var body streamRelease
	if err := web.DecodeObject(r.Release, &body); err != nil {
		return nil, err
	}
	o, err := body.Outcome()
	if err != nil {
		return nil, err
	}
	runner, err := body.Runner()
	if err != nil {
		return nil, err
	}
	one := !body.JobID.IsZero()
	ids := []job.ID{body.JobID}
	switch {
	case one && body.JobIDs != nil:
		return nil, web.BadRequest("job_ids", "a release must not have both job_id and job_ids")
	case !one && body.JobIDs == nil:
		return nil, web.BadRequest("job_id", "job_id or job_ids is required")
	case !one:
		if ids, err = command.NamedJobs(*body.JobIDs); err != nil {
			return nil, err
		}
	}
	var done command.Completion
	for _, id := range ids {
		o.ID = id
		done.Add(body.ClaimID, runner, o)
	}
	return t.beginEnd(&done, one, func() (job.Once, error) { return t.once(r, "/release", "release", runner, r.Release) })
}

// beginEnd ends runs. If one is true, the request names a single job, and a refusal of that job refuses the request.
func (t *stream) beginEnd(done *command.Completion, one bool, once func() (job.Once, error)) (finisher, error) {
	o, err := once()
	if err == nil {
		err = done.SetOnce(o)
	}
	if err == nil {
		err = t.s.Decode.RequireClaimIDs(done)
	}
	if err != nil {
		return nil, err
	}
	return func(b []byte) ([]byte, uint64, error) {
		held := t.share(t.s.Changes)
		if err := held.Resize(context.Background(), answer.ResultsBytes(done.Count)); err != nil {
			return nil, 0, err
		}
		defer held.Release()
		ended, seq, err := t.s.End(t.ctx, done)
		if err != nil {
			return nil, 0, err
		}
		if slices.ContainsFunc(done.Commands, func(c job.Complete) bool { return c.Claim.IsZero() }) {
			t.holding.endAny(ended.Results)
		}
		if one {
			if err := refusal.Err(ended.Results[0].Refusal); err != nil {
				return nil, 0, err
			}
			b = append(b, `{"status":"`...)
			b = append(b, ended.Results[0].Status.String()...)
			return append(b, `"}`...), seq, nil
		}
		if err := refusal.Err(ended.Refusal); err != nil {
			return nil, 0, err
		}
		b = append(b, '{')
		if done.All {
			b = append(strconv.AppendInt(append(b, `"ended":`...), int64(ended.All), 10), ',')
		}
		results, field := ended.Results, `"results":`
		if done.Brief {
			var accepted int
			accepted, results = command.AcceptedOf(results)
			b = append(strconv.AppendInt(append(b, `"accepted":`...), int64(accepted), 10), ',')
			field = `"refused":`
		}
		return append(answer.AppendJobResults(append(b, field...), results), '}'), seq, nil
	}, nil
}

// beginBegin records that runs have begun. It writes nothing to the journal, because only the end of the stream uses
// the record.
func (t *stream) beginBegin(r *streamRequest) (finisher, error) {
	var body struct {
		ClaimID job.ID    `json:"claim_id"`
		JobIDs  *[]job.ID `json:"job_ids"`
	}
	if err := web.DecodeObject(r.Begin, &body); err != nil {
		return nil, err
	}
	if body.ClaimID.IsZero() {
		return nil, web.BadRequest("claim_id", "claim_id is missing")
	}
	var ids []job.ID
	if body.JobIDs != nil {
		var err error
		if ids, err = command.NamedJobs(*body.JobIDs); err != nil {
			return nil, err
		}
	}
	t.holding.begin(body.ClaimID, ids)
	return nothingToSay, nil
}

// beginQuietly carries out a begin without a number, which gets no answer.
func (t *stream) beginQuietly(r *streamRequest) error {
	v, err := t.permitted(r)
	if err == nil {
		_, err = v.begin(t, r)
	}
	if err == nil {
		t.s.verbs[v.name].Observe(http.StatusOK, 0)
	}
	return err
}

// beginTickle is POST /jobs/tickle. Without job_ids, claim_id and runner_id it tickles all jobs of the stream's runner.
func (t *stream) beginTickle(r *streamRequest) (finisher, error) {
	var body command.TickleManyRequest
	if err := web.DecodeObject(r.Tickle, &body); err != nil {
		return nil, err
	}
	whole := body.JobIDs == nil && body.ClaimID.IsZero() && body.RunnerID == nil && t.hello.runner != ""
	if whole {
		body.RunnerID = &t.hello.runner
	}
	cmd, err := body.Command()
	if err == nil {
		err = t.s.Decode.RequireClaimID(cmd.Claim)
	}
	if err != nil {
		return nil, err
	}
	return func(b []byte) ([]byte, uint64, error) {
		tickled, receipt, err := t.s.Engine.Tickle(t.ctx, cmd)
		if err != nil {
			return nil, 0, err
		}
		if cmd.Claim.IsZero() {
			t.holding.tickled(&cmd, &tickled, receipt.At)
		} else {
			t.s.Tickled(t.ctx, &cmd, &tickled, receipt.At)
		}
		if err := answer.NothingHeld(&tickled); err != nil && !whole { // a runner that tickles from time to time may hold no job
			return nil, 0, err
		}
		return appendDocument(b, answer.HeldDocument{Held: tickled.Held, Lost: answer.LostJobs(tickled.Lost)}, receipt.Seq)
	}, nil
}
