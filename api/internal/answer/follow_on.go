package answer

import (
	"fmt"
	"maps"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
)

// followOnDocument is an on_complete in the document of its job.
type followOnDocument struct {
	Client      string            `json:"client,omitzero"`
	Type        string            `json:"type"`
	DelayMs     int64             `json:"delay_ms,omitzero"`
	Priority    int               `json:"priority"`
	MaxAttempts int               `json:"max_attempts"`
	Backoff     backoffDocument   `json:"backoff"`
	LeaseMs     int64             `json:"lease_ms"`
	RetentionMs int64             `json:"retention_ms"`
	TimeoutMs   int64             `json:"timeout_ms,omitzero"`
	Traceparent string            `json:"traceparent,omitzero"`
	Meta        map[string]string `json:"meta,omitempty"`
	OnComplete  jsontext.Value    `json:"on_complete,omitzero"`
}

type backoffDocument struct {
	InitialMs   int64 `json:"initial_ms"`
	FactorMilli int64 `json:"factor_milli"`
	MaxMs       int64 `json:"max_ms"`
}

func appendFollowOn(b []byte, text job.FollowOn) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	g, delayMs, err := text.Parse()
	if err != nil {
		panic(fmt.Sprintf("api: on_complete %q was not checked: %v", string(text), err))
	}
	doc := followOnDocument{
		Client: g.Client, Type: g.Type, DelayMs: delayMs, Priority: g.Priority, MaxAttempts: g.MaxAttempts, Backoff: backoffDocument(g.Backoff),
		LeaseMs: g.LeaseMs, RetentionMs: g.RetentionMs, TimeoutMs: g.TimeoutMs, Traceparent: g.Traceparent,
	}
	if g.Meta != "" {
		doc.Meta = maps.Collect(g.Meta.All())
	}
	if g.OnComplete != "" {
		doc.OnComplete = appendFollowOn(nil, g.OnComplete)
	}
	value, err := json.Marshal(&doc, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("api: encode on_complete: %v", err)) // texts in the journal are valid UTF-8
	}
	return append(b, value...)
}
