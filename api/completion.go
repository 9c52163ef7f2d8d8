package api

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// completion is a request to end runs, as commands in the order in which they are applied. If the request has an
// outcome for all jobs of a claim, that outcome is in the last command.
type completion struct {
	s        *Server
	commands []job.Complete
	all      bool
	bytes    int  // size of the last command
	creates  int  // number of jobs that the last command creates
	count    int  // number of outcomes, without the outcome for all
	brief    bool // the request is in runs, so the answer has the results of refused outcomes only

	most    int                     // maximum of count; 0: no maximum
	reserve func(bytes int64) error // waits until there is memory for that many bytes
}

const (
	// outcomeBytes is about the memory for an outcome in addition to its text in the body: the decoded outcome and its
	// result.
	outcomeBytes = 256
	// Memory is reserved for outcomesPerShare outcomes at a time. The share of the body covers the first ones.
	outcomesPerShare = 100
)

// admit counts an outcome before it is decoded, and reserves memory for it.
func (d *completion) admit(list string) error {
	d.count++
	if d.most > 0 && d.count > d.most {
		return web.BadRequest(list, fmt.Sprintf("%s has too many outcomes; the maximum in a claim request and in a stream is %d; send the others in further requests", list, d.most))
	}
	if d.count%outcomesPerShare == 0 {
		return d.reserve(outcomesPerShare * outcomeBytes)
	}
	return nil
}

// completeRequest is the JSON body of POST /jobs/complete: an outcome for all jobs of a claim with exceptions, or a
// list of outcomes. The items of a list are decoded one by one.
type completeRequest struct {
	fences
	outcomeFields
	Except   jsontext.Value `json:"except"`   // a list of exceptItem
	Outcomes jsontext.Value `json:"outcomes"` // a list of outcomeItem
}

func (r *completeRequest) completion(done *completion) error {
	runner, err := r.runner()
	if err != nil {
		return err
	}
	if !web.Absent(r.Outcomes) {
		if r.outcomeFields.any() || !web.Absent(r.Except) {
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
	all, err := r.outcome()
	if err != nil {
		return err
	}
	if err := checkAll(&all); err != nil {
		return err
	}
	if !web.Absent(r.Except) {
		err := decodeEach(done, "except", r.Except, func(e *exceptItem) error {
			if err := checkExceptions("except", done.count); err != nil {
				return err
			}
			o, err := e.outcomeOf(done, e.JobID)
			if err != nil {
				return web.Inside(web.Item("except", done.count-1), err)
			}
			done.add(r.ClaimID, runner, o)
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
func decodeEach[T any](d *completion, list string, text jsontext.Value, take func(it *T) error) error {
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
		if err := web.DecodeValue(web.Item(list, d.count-1), value, &it); err != nil {
			return err
		}
		if err := take(&it); err != nil {
			return err
		}
	}
	return nil
}

// any reports whether at least one field is given.
func (f *outcomeFields) any() bool {
	return f.given() || f.ProcessExit != nil || f.OutputAddr != nil || f.AddrKind != nil || f.LogAddr != nil || !web.Absent(f.Output) || f.OutputB64 != nil || f.Error != nil || f.DelayMs != nil || !web.Absent(f.Then)
}

// list adds a list of outcomes. An item can have its own claim_id and runner_id, which replace the request's.
func (d *completion) list(name string, items jsontext.Value, claim job.ID, runner string) error {
	return decodeEach(d, name, items, func(it *outcomeItem) error {
		if err := d.addItem(it, claim, runner); err != nil {
			return web.Inside(web.Item(name, d.count-1), err)
		}
		return nil
	})
}

func (d *completion) addItem(it *outcomeItem, claim job.ID, runner string) error {
	o, err := it.outcomeOf(d, it.JobID)
	if err != nil {
		return err
	}
	if !it.ClaimID.IsZero() {
		claim = it.ClaimID
	}
	own, err := it.runner()
	if err != nil {
		return err
	}
	if own != "" {
		runner = own
	}
	d.add(claim, runner, o)
	return nil
}

// maxCommandBytes is the size of a full command. It counts three bytes for each byte of text, because the journal
// percent-escapes some characters. A single outcome can exceed it, and still takes at most half a journal record.
const maxCommandBytes = job.MaxBodyBytes

// add appends an outcome to the last command. It begins a new command if the claim or the runner differs, and if the
// last command is full.
func (d *completion) add(claim job.ID, runner string, o job.Outcome) {
	bytes, creates := 256+3*(len(o.Error)+len(o.OutputAddr)+len(o.LogAddr))+len(o.Output), 0
	if o.Then != nil {
		bytes, creates = bytes+textBytes(o.Then), o.Then.Lines()
	}
	if n := len(d.commands); n > 0 {
		last := &d.commands[n-1]
		if last.Claim == claim && last.Runner == runner && len(last.Outcomes) < job.MaxOutcomes && d.bytes+bytes <= maxCommandBytes &&
			d.creates+creates <= job.MaxChainedAtOnce {
			last.Outcomes = append(last.Outcomes, o)
			d.bytes, d.creates = d.bytes+bytes, d.creates+creates
			return
		}
	}
	d.commands = append(d.commands, job.Complete{Claim: claim, Runner: runner, Outcomes: []job.Outcome{o}})
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

// lines adds the outcomes of an NDJSON body, which has one outcome per line. It ignores empty lines. The caller applies
// nothing if one line is malformed.
func (d *completion) lines(text []byte) error {
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
			return placed(fmt.Sprintf("line %d", number), err)
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
func (d *completion) addAll(claim job.ID, runner string, o *job.Outcome) {
	if len(d.commands) == 0 {
		d.commands = append(d.commands, job.Complete{Claim: claim, Runner: runner})
	}
	d.all = true
	d.commands[len(d.commands)-1].All = o
}

// setOnce numbers the commands as parts of one request with an idempotency key or a session number.
func (d *completion) setOnce(o job.Once) error {
	if !o.Given() {
		return nil
	}
	if len(d.commands) > job.MaxParts {
		return web.BadRequest("outcomes", fmt.Sprintf("a completion with an %s or a session number has too many groups of consecutive outcomes with the same claim_id and runner_id: %d; the maximum is %d; sort the outcomes by claim_id, or send several requests",
			web.HeaderKey, len(d.commands), job.MaxParts))
	}
	for i := range d.commands {
		d.commands[i].Once = o
		d.commands[i].Once.Part = i
	}
	return nil
}
