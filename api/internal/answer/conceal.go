package answer

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
)

// Conceal removes from jobs what a key hides from its reader. Of jobs whose fields it redacts, only payloads and outputs that are
// JSON are shown, because no other text has fields. The jobs may share memory with others, which does not change.
func Conceal(key *job.Key, jobs ...*job.Job) {
	if !key.Conceals() {
		return
	}
	for _, j := range jobs {
		if key.HidePayloads {
			j.Error, j.Step, j.Steps, j.Attempts = "", "", nil, slices.Clone(j.Attempts)
			for i := range j.Attempts {
				j.Attempts[i].Error, j.Attempts[i].LogAddr = "", ""
			}
			j.OutputAddr, j.LogAddr = "", ""
		}
		j.Kind, j.Payload = redacted(key, j.Kind, j.Payload)
		j.OutputKind, j.Output = redacted(key, j.OutputKind, j.Output)
	}
}

// ConcealAll is Conceal for a list.
func ConcealAll(key *job.Key, jobs []job.Job) {
	if !key.Conceals() {
		return
	}
	for i := range jobs {
		Conceal(key, &jobs[i])
	}
}

// redacted returns a JSON value with other values for the fields that a key redacts. It returns nothing if the key hides all of it.
func redacted(key *job.Key, kind job.Kind, value []byte) (job.Kind, []byte) {
	if key.HidePayloads || kind != job.JSON {
		return job.Nothing, nil
	}
	var b bytes.Buffer
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	from, to := jsontext.NewDecoder(bytes.NewReader(value), lenient...), jsontext.NewEncoder(&b, lenient...)
	for {
		token, err := from.ReadToken()
		if err != nil { // the end, or text that is no JSON
			break
		}
		in, n := from.StackIndex(from.StackDepth())
		isName := in == jsontext.KindBeginObject && n%2 == 1
		hidden := isName && key.Redacts(token.String())
		if err := to.WriteToken(token); err != nil {
			return job.Nothing, nil
		}
		if !hidden {
			continue
		}
		if from.SkipValue() != nil || to.WriteToken(jsontext.String(Redacted)) != nil {
			return job.Nothing, nil
		}
	}
	if to.StackDepth() > 0 || b.Len() == 0 {
		return job.Nothing, nil
	}
	return job.JSON, bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Redacted is the value of a field that a key redacts.
const Redacted = "(redacted)"
