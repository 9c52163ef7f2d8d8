package command

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// Completion is a request to end runs, as commands in the order in which they are applied. If the request has an
// outcome for all jobs of a claim, that outcome is in the last command.
type Completion struct {
	Decoder  *Decoder
	Commands []job.Complete
	All      bool
	bytes    int  // size of the last command
	creates  int  // number of jobs that the last command creates
	Count    int  // number of outcomes, without the outcome for all
	Brief    bool // the request is in runs, so the answer has the results of refused outcomes only

	Most    int                     // maximum of count; 0: no maximum
	Reserve func(bytes int64) error // waits until there is memory for that many bytes
}

const (
	// outcomeBytes is about the memory for an outcome in addition to its text in the body: the decoded outcome and its
	// result.
	outcomeBytes = 256
	// Memory is reserved for outcomesPerShare outcomes at a time. The share of the body covers the first ones.
	outcomesPerShare = 100
)

// admit counts an outcome before it is decoded, and reserves memory for it.
func (d *Completion) admit(list string) error {
	d.Count++
	if d.Most > 0 && d.Count > d.Most {
		return web.BadRequest(list, fmt.Sprintf("%s has too many outcomes; the maximum in a claim request and in a stream is %d; send the others in further requests", list, d.Most))
	}
	if d.Count%outcomesPerShare == 0 {
		return d.Reserve(outcomesPerShare * outcomeBytes)
	}
	return nil
}

// CompleteRequest is the JSON body of POST /jobs/complete: an outcome for all jobs of a claim with exceptions, or a
// list of outcomes. The items of a list are decoded one by one.
type CompleteRequest struct {
	Fences
	OutcomeFields
	Except   jsontext.Value `json:"except" items:"Exception" maxItems:"1000" nullable:"true"` // a list of exceptItem
	Outcomes jsontext.Value `json:"outcomes" items:"Outcome"`                                 // a list of outcomeItem
}

func (r *CompleteRequest) Completion(done *Completion) error {
	runner, err := r.Runner()
	if err != nil {
		return err
	}
	if !web.Absent(r.Outcomes) {
		if r.OutcomeFields.any() || !web.Absent(r.Except) {
			return web.BadRequest("outcomes", "a request with outcomes must not have an outcome for all jobs (status, code or exit_code) or except")
		}
		return done.list("outcomes", r.Outcomes, r.ClaimID, runner)
	}
	if !r.given() {
		return web.BadRequest("outcomes", "the outcome is missing: an outcome for all jobs of a claim (status, code or exit_code) or a list of outcomes is required")
	}
	if r.ClaimID.IsZero() {
		return web.BadRequest("claim_id", "an outcome for all jobs of a claim requires the claim_id")
	}
	if !web.Absent(r.Then) {
		return web.BadRequest("then", "an outcome for all jobs of a claim must not have then; give each job its own outcome")
	}
	all, err := r.Outcome()
	if err != nil {
		return err
	}
	if err := checkAll(&all); err != nil {
		return err
	}
	if !web.Absent(r.Except) {
		err := decodeEach(done, "except", r.Except, func(e *exceptItem) error {
			if err := checkExceptions("except", done.Count); err != nil {
				return err
			}
			o, err := e.OutcomeOf(done, e.JobID)
			if err != nil {
				return web.Inside(web.Item("except", done.Count-1), err)
			}
			done.Add(r.ClaimID, runner, o)
			return nil
		})
		if err != nil {
			return err
		}
	}
	done.addAll(r.ClaimID, runner, &all)
	return nil
}

// decodeEach decodes a list and calls take with each item.
func decodeEach[T any](d *Completion, list string, text jsontext.Value, take func(it *T) error) error {
	if text.Kind() != jsontext.KindBeginArray {
		return web.BadRequest(list, fmt.Sprintf("%s must be a list, not %s", list, web.KindText(text.Kind())))
	}
	items := jsontext.NewDecoder(bytes.NewBuffer(text))
	if _, err := items.ReadToken(); err != nil {
		return fmt.Errorf("read list %s: %w", list, err) // cannot happen: the text was checked as JSON before
	}
	for items.PeekKind() != jsontext.KindEndArray {
		if err := d.admit(list); err != nil {
			return err
		}
		value, err := items.ReadValue()
		if err != nil {
			return fmt.Errorf("read list %s: %w", list, err)
		}
		var it T
		if err := web.DecodeValue(web.Item(list, d.Count-1), value, &it); err != nil {
			return err
		}
		if err := take(&it); err != nil {
			return err
		}
	}
	return nil
}

// any reports whether at least one field is given.
func (f *OutcomeFields) any() bool {
	return f.given() || f.ProcessExit != nil || f.OutputAddr != nil || f.AddrKind != nil || f.LogAddr != nil || !web.Absent(f.Output) || f.OutputB64 != nil || f.Error != nil || f.DelayMs != nil || !web.Absent(f.Then)
}

// list adds a list of outcomes. An item can have its own claim_id and runner_id, which replace the request's.
func (d *Completion) list(name string, items jsontext.Value, claim job.ID, runner string) error {
	return decodeEach(d, name, items, func(it *outcomeItem) error {
		if err := d.addItem(it, claim, runner); err != nil {
			return web.Inside(web.Item(name, d.Count-1), err)
		}
		return nil
	})
}

func (d *Completion) addItem(it *outcomeItem, claim job.ID, runner string) error {
	o, err := it.OutcomeOf(d, it.JobID)
	if err != nil {
		return err
	}
	if !it.ClaimID.IsZero() {
		claim = it.ClaimID
	}
	own, err := it.Runner()
	if err != nil {
		return err
	}
	if own != "" {
		runner = own
	}
	d.Add(claim, runner, o)
	return nil
}

// maxCommandBytes is the size of a full command. It counts three bytes for each byte of text, because the journal
// percent-escapes some characters. A single outcome can exceed it, and still takes at most half a journal record.
const maxCommandBytes = job.MaxBodyBytes

// Add appends an outcome to the last command. It begins a new command if the claim or the runner differs, and if the
// last command is full.
func (d *Completion) Add(claim job.ID, runner string, o job.Outcome) {
	bytes, creates := 256+3*(len(o.Error)+len(o.OutputAddr)+len(o.LogAddr))+len(o.Output), 0
	if o.Then != nil {
		bytes, creates = bytes+textBytes(o.Then), o.Then.Lines()
	}
	if n := len(d.Commands); n > 0 {
		last := &d.Commands[n-1]
		if last.Claim == claim && last.Runner == runner && len(last.Outcomes) < job.MaxOutcomes && d.bytes+bytes <= maxCommandBytes &&
			d.creates+creates <= job.MaxChainedAtOnce {
			last.Outcomes = append(last.Outcomes, o)
			d.bytes, d.creates = d.bytes+bytes, d.creates+creates
			return
		}
	}
	d.Commands = append(d.Commands, job.Complete{Claim: claim, Runner: runner, Outcomes: []job.Outcome{o}})
	d.bytes, d.creates = bytes, creates
}

// textBytes returns about the number of bytes that an outcome's new jobs take in the journal.
func textBytes(jobs *job.Create) int {
	n := len(jobs.Payloads)
	for i := range jobs.Groups {
		g := &jobs.Groups[i]
		n += 512 + len(g.Meta) + 3*len(g.OnComplete)
	}
	for _, u := range jobs.Unique {
		n += 32 + 3*len(u.Key)
	}
	return n
}

// Lines adds the outcomes of an NDJSON body, which has one outcome per line. It ignores empty lines. The caller applies
// nothing if one line is malformed.
func (d *Completion) Lines(text []byte) error {
	for number := 1; len(text) > 0; number++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := d.admit(""); err != nil {
			return err
		}
		var it outcomeItem
		err := web.DecodeObject(line, &it)
		if err == nil {
			err = d.addItem(&it, job.ID{}, "")
		}
		if err != nil {
			return refusal.Placed(fmt.Sprintf("line %d", number), err)
		}
	}
	return nil
}

// checkAll refuses the fields that only an outcome for all jobs of a claim must not have.
func checkAll(o *job.Outcome) error {
	if n := len(o.Output) + len(o.Error); n > job.MaxForAllBytes {
		return web.BadRequest("output", fmt.Sprintf("output and error of the outcome for all jobs have %d bytes together; the maximum is %d, because each job keeps a copy; store larger outputs elsewhere and send output_addr", n, job.MaxForAllBytes))
	}
	return nil
}

// checkExceptions bounds the outcomes beside an outcome for all jobs of a claim.
func checkExceptions(field string, n int) error {
	if n <= job.MaxClaimJobs {
		return nil
	}
	return web.BadRequest(field, fmt.Sprintf("%s names too many jobs; the maximum is %d, because a claim cannot hold more", field, job.MaxClaimJobs))
}

// addAll gives an outcome to all jobs of a claim that have not got one in this request. All earlier outcomes belong to
// the claim.
func (d *Completion) addAll(claim job.ID, runner string, o *job.Outcome) {
	if len(d.Commands) == 0 {
		d.Commands = append(d.Commands, job.Complete{Claim: claim, Runner: runner})
	}
	d.All = true
	d.Commands[len(d.Commands)-1].All = o
}

// SetOnce numbers the commands as parts of one request with an idempotency key or a session number.
func (d *Completion) SetOnce(o job.Once) error {
	if !o.Given() {
		return nil
	}
	if len(d.Commands) > job.MaxParts {
		return web.BadRequest("outcomes", fmt.Sprintf("a completion with an %s or a session number has too many groups of consecutive outcomes with the same claim_id and runner_id: %d; the maximum is %d; sort the outcomes by claim_id, or send several requests",
			web.HeaderKey, len(d.Commands), job.MaxParts))
	}
	for i := range d.Commands {
		d.Commands[i].Once = o
		d.Commands[i].Once.Part = i
	}
	return nil
}

// AcceptedOf returns the number of accepted outcomes, and the results of the refused ones. A request in runs names
// thousands of jobs in a few bytes, so its answer does not name them one by one.
func AcceptedOf(results []applied.JobResult) (accepted int, refused []applied.JobResult) {
	refused = results[:0]
	for i := range results {
		if results[i].Refusal != job.Granted {
			refused = append(refused, results[i])
		}
	}
	return len(results) - len(refused), refused
}

// Decode adds the outcomes of a body with the given media type, and returns the runner_id of the whole request.
func (d *Completion) Decode(mediaType string, body []byte) (runner string, err error) {
	switch mediaType {
	case web.MIMENDJSON:
		return "", d.Lines(body)
	case web.MIMERuns:
		return d.InRuns(body)
	}
	var r CompleteRequest
	if err = web.DecodeObject(body, &r); err == nil {
		err = r.Completion(d)
	}
	if err != nil {
		return "", err
	}
	return r.Runner()
}

// JoinEnded joins the results of a request's commands, as if the request were one command.
func JoinEnded(ended []applied.Ended, receipt ingest.Receipt, err error) (all applied.Ended, seq uint64, _ error) {
	n := 0
	for i := range ended {
		n += len(ended[i].Results)
	}
	all.Results = make([]applied.JobResult, 0, n)
	for i := range ended {
		all.Results = append(all.Results, ended[i].Results...)
		all.All, all.Refusal, all.Replayed = ended[i].All, ended[i].Refusal, ended[i].Replayed
	}
	if n := len(all.Results); err != nil && n > 0 {
		p := *refusal.Of(err)
		p.Fate, p.Detail = web.Unknown, fmt.Sprintf("the first %d outcomes were applied, then: %s", n, p.Detail)
		err = &p
	}
	return all, receipt.Seq, err
}
