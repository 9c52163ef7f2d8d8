package api

import (
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/job"
)

// limits bounds the memory and processors that requests use. One remote address can use half of each lane.
type limits struct {
	// arriving bounds the bytes of request bodies, and of the objects that are made from them. A create holds its share until it is
	// synced. From then on, the journal's own limit applies.
	arriving                           web.Budget
	bulk, control, streamed, manifests *web.Lane

	// answered bounds the bytes of answers, including the data that the answers are made from. A client that does not
	// read its answer keeps its share until the server closes the connection.
	answered                                                      web.Budget
	documents, handouts, changes, downloads, scrapes, compressors *web.Lane

	// kept bounds the bytes of things that the server keeps while clients wait.
	kept                               web.Budget
	parked, streamRequests, streamJobs *web.Lane

	pages  web.Turns // to make pages of lists
	bodies bodyRules
}

func newLimits() *limits {
	l := new(limits)
	l.bulk = l.arriving.Lane("bulk", 128<<20)      // creates: sixteen of the largest bodies, which is enough to keep the disk busy
	l.control = l.arriving.Lane("control", 64<<20) // all other bodies
	l.streamed = l.arriving.Lane("blobs", 64<<20)  // blobs and archives, which are longer than memory
	l.manifests = l.arriving.Lane("filesets", files.ManifestsBytes)

	l.documents = l.answered.Lane("documents", 32<<20)     // answers to GET
	l.handouts = l.answered.Lane("handouts", 64<<20)       // answers to claims
	l.changes = l.answered.Lane("changes", 16<<20)         // answers to changes of one job, which have its document, and to completions
	l.downloads = l.answered.Lane("blobs", 64<<20)         // blobs, filesets, logs and backups
	l.scrapes = l.answered.Lane("scrapes", 128<<20)        // pages of metrics, which wait for no other lane
	l.compressors = l.answered.Lane("compressors", 16<<20) // of answers to GET

	l.parked = l.kept.Lane("parked", 16<<20)           // results of completions whose claim waits
	l.streamRequests = l.kept.Lane("requests", 64<<20) // outstanding requests of streams
	l.streamJobs = l.kept.Lane("jobs", 128<<20)        // subscriptions of streams, and the claims that streams hold

	l.pages = web.NewTurns()
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

func newBodyRules(bulk, control *web.Lane) bodyRules {
	asJSON, asList := []string{web.MIMEJSON}, []string{web.MIMEJSON, web.MIMENDJSON, web.MIMERuns}
	return bodyRules{
		lines:       web.BodyRule{Lane: bulk, Limit: web.MaxBodyBytes},
		creates:     web.BodyRule{Lane: bulk, Limit: web.MaxBodyBytes, Types: asList, Pooled: true},
		added:       web.BodyRule{Lane: bulk, Limit: web.MaxBodyBytes, Types: append(slices.Clone(asList), web.MIMEText), Pooled: true},
		outcomes:    web.BodyRule{Lane: control, Limit: web.MaxBodyBytes, Types: asJSON, Pooled: true},
		outcomeList: web.BodyRule{Lane: control, Limit: web.MaxBodyBytes, Types: asList, Pooled: true},
		small:       web.BodyRule{Lane: control, Limit: web.SmallBodyBytes, Types: asJSON, Pooled: true},
		optional:    web.BodyRule{Lane: control, Limit: web.SmallBodyBytes, Types: asJSON, Pooled: true, Optional: true},
		log:         web.BodyRule{Lane: control, Limit: joblog.MaxBytes, Types: []string{web.MIMEText, echo.MIMEOctetStream}},
		handler:     web.BodyRule{Lane: control, Limit: 2 * job.MaxHandlerBytes, Types: asJSON}, // escapes take up to twice as many bytes
		toml:        web.BodyRule{Lane: control, Limit: 2 * job.MaxHandlerBytes, Types: []string{web.MIMEJSON, web.MIMETOML}},
	}
}
