package api

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// audit lists the commands of operators and admins.
type audit struct{ reader }

func (s audit) routes(r operation.Rules) []route {
	return []route{written(r, http.MethodGet, "/audit", operation.About{
		ID: "audit", Tag: "Access", Summary: "List the commands of operators and admins",
		Text: "A JSON line for each command that changed jobs, queues, batches, handlers, filesets, keys, the level or the nodes, or that\n" +
			"was refused, in their order. They are kept for a year, or 64 MiB, half of them for keys of some clients. The next page begins `after` the `seq` of the last line;\n" +
			"a page with fewer lines than its limit is the last one.\n",
		Refusals: []int{503},
		Replies: []operation.Reply{{Status: http.StatusOK, Text: "a line for each command",
			Content: map[string]openapi.Shape{web.MIMENDJSON: openapi.ListOf(answered[auditedDocument]())}}},
	}, s.list)}
}

type auditQuery struct {
	After         uint64 `query:"after" doc:"only commands after this one: the seq of the last line of the previous page"`
	By            string `query:"by" maxLength:"128" doc:"only commands of this key"`
	Command       string `query:"command" maxLength:"32" doc:"only commands with this name, as a line has it"`
	CreatedAfter  int64  `query:"created_after" minimum:"0" maximum:"253402300799999" doc:"only commands of this time or later, in unix ms"`
	CreatedBefore int64  `query:"created_before" minimum:"1" maximum:"253402300799999" doc:"only commands before this time, in unix ms"`
	Limit         int    `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"maximum number of lines; default: 1000"`
	caughtUp
}

// auditedDocument is a line of the audit.
type auditedDocument struct {
	Seq     uint64            `json:"seq" minimum:"1" doc:"its place in the journal"`
	At      int64             `json:"at" minimum:"0"`
	By      *string           `json:"by" maxLength:"128" doc:"the key of the request; null: there were no keys"`
	Command string            `json:"command" doc:"its name in the journal"`
	Fields  map[string]string `json:"fields" doc:"what it names, as in the journal: clients, types, ids, names. For a key or quota, it has what that permits. It has no texts of handlers and no secrets"`
	Refusal *string           `json:"refusal" doc:"the code of the problem, if it was refused"`
}

func documentOfAudited(a *document.Audited) auditedDocument {
	doc := auditedDocument{Seq: a.Seq, At: a.At, By: web.OrNull(a.By), Command: a.Verb, Fields: map[string]string{}}
	for pair := range strings.FieldsSeq(a.Fields) {
		key, raw, _ := strings.Cut(pair, "=")
		value, err := job.Unescape(raw)
		if err != nil { // the last one is cut off
			value = raw
		}
		doc.Fields[key] = value
	}
	if a.Refusal != job.Granted {
		code := a.Refusal.Code()
		doc.Refusal = &code
	}
	return doc
}

// list answers with lines. Looking at all that is kept takes some tenths of a second, so requests take turns.
func (s audit) list(c echo.Context, in *auditQuery) error {
	held, err := s.page(c, in.caughtUp, web.MaxRowsBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	var list []document.Audited
	err = s.pages.Do(c.Request().Context(), func() error {
		list, err = s.engine.Audit(query.AuditFilter{After: in.After, By: in.By, Verb: in.Command, Since: in.CreatedAfter, Before: in.CreatedBefore, Limit: in.Limit})
		return err
	})
	if err != nil {
		return err
	}
	p := web.NewPieces(c, web.MIMENDJSON, held, s.pages)
	for i := range list {
		line, err := json.Marshal(documentOfAudited(&list[i]), json.Deterministic(true))
		if err != nil {
			return err
		}
		if p.B = append(append(p.B, line...), '\n'); len(p.B) >= web.PieceBytes {
			if err := p.Write(); err != nil {
				return err
			}
		}
	}
	return p.End()
}
