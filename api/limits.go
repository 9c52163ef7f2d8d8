package api

import (
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/job"
)

// These budgets bound the bytes of request bodies in memory. Creates have a separate budget, so that bulk posts never
// prevent runners from completing jobs. A create holds its share until it is synced. From then on, the journal's own
// limit applies.
const (
	bulkBudgetBytes    = 128 << 20 // sixteen of the largest bodies, which is enough to keep the disk busy
	controlBudgetBytes = 64 << 20
)

// These budgets bound the bytes of answers in memory, including the data that the answers are made from. A client that
// does not read its answer keeps its share until the server closes the connection. Claims have a separate budget, so
// that clients that read lists cannot prevent runners from claiming jobs.
const (
	documentsBudgetBytes = 32 << 20 // answers to GET
	handoutsBudgetBytes  = 64 << 20 // answers to claims
	changesBudgetBytes   = 16 << 20 // answers to changes of one job, which have its document, and to completions
	parkedBudgetBytes    = 16 << 20 // results of completions whose claim waits
)

// downloadsBudgetBytes bounds the memory for blobs, filesets, logs and backups that are sent.
const downloadsBudgetBytes = 64 << 20

// limits bounds the memory and processors that requests use.
type limits struct {
	bulk, control                         *web.Budget // for request bodies
	documents, handouts, changes, scrapes *web.Budget // for answers
	parked                                *web.Budget // for results of completions whose claim waits
	downloads                             *web.Budget // for answers that are longer than memory
	pages                                 web.Turns   // to make pages of lists
	bodies                                bodyRules
}

func newLimits() limits {
	l := limits{
		bulk: web.NewBudget(bulkBudgetBytes), control: web.NewBudget(controlBudgetBytes),
		documents: web.NewBudget(documentsBudgetBytes), handouts: web.NewBudget(handoutsBudgetBytes), changes: web.NewBudget(changesBudgetBytes),
		parked: web.NewBudget(parkedBudgetBytes), scrapes: web.NewBudget(scrapesBudgetBytes), downloads: web.NewBudget(downloadsBudgetBytes), pages: web.NewTurns(),
	}
	l.bodies = newBodyRules(l.bulk, l.control)
	return l
}

// bodyRules are the rules of all routes that accept a body.
type bodyRules struct {
	lines       web.BodyRule // lines of a bulk post; the buffer becomes part of a journal record
	creates     web.BodyRule // JSON, NDJSON or runs with payloads
	added       web.BodyRule // JSON, NDJSON or runs with payloads; lines of text have another rule
	outcomes    web.BodyRule // JSON with outputs
	outcomeList web.BodyRule // JSON, NDJSON or runs with outputs
	small       web.BodyRule // JSON without payloads and outputs
	optional    web.BodyRule // like small, or no body
	handler     web.BodyRule // JSON with the source of a handler
	toml        web.BodyRule // the source of a handler, or a manifest in TOML
	log         web.BodyRule // the output of a job

}

func newBodyRules(bulk, control *web.Budget) bodyRules {
	asJSON, asList := []string{web.MIMEJSON}, []string{web.MIMEJSON, web.MIMENDJSON, web.MIMERuns}
	return bodyRules{
		lines:       web.BodyRule{Budget: bulk, Limit: web.MaxBodyBytes},
		creates:     web.BodyRule{Budget: bulk, Limit: web.MaxBodyBytes, Types: asList, Pooled: true},
		added:       web.BodyRule{Budget: bulk, Limit: web.MaxBodyBytes, Types: append(slices.Clone(asList), web.MIMEText), Pooled: true},
		outcomes:    web.BodyRule{Budget: control, Limit: web.MaxBodyBytes, Types: asJSON, Pooled: true},
		outcomeList: web.BodyRule{Budget: control, Limit: web.MaxBodyBytes, Types: asList, Pooled: true},
		small:       web.BodyRule{Budget: control, Limit: web.SmallBodyBytes, Types: asJSON, Pooled: true},
		optional:    web.BodyRule{Budget: control, Limit: web.SmallBodyBytes, Types: asJSON, Pooled: true, Optional: true},
		log:         web.BodyRule{Budget: control, Limit: joblog.MaxBytes, Types: []string{web.MIMEText, echo.MIMEOctetStream}},
		handler:     web.BodyRule{Budget: control, Limit: 2 * job.MaxHandlerBytes, Types: asJSON}, // escapes take up to twice as many bytes
		toml:        web.BodyRule{Budget: control, Limit: 2 * job.MaxHandlerBytes, Types: []string{web.MIMEJSON, web.MIMETOML}},
	}
}
