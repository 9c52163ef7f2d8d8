package answer

import (
	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/document"
)

// HeaderHandler names the job's handler by id, kind and digest. It is a header because the answer to a claim of one job
// is the document of that job.
const HeaderHandler = "Daybook-Handler"

// HandlersOf returns the handlers that find returns for the jobs of a claim. Their order is the order of each handler's first job.
func HandlersOf(find func(client, typ string) (document.Named, bool), handed []runs.Run) (list []runs.Handler) {
	var known map[job.ID]bool
	for i := range handed {
		j := &handed[i].First
		if i > 0 && j.Type == handed[i-1].First.Type && j.Client == handed[i-1].First.Client {
			continue
		}
		h, ok := find(j.Client, j.Type)
		if !ok || known[h.ID] {
			continue
		}
		if known == nil {
			known = map[job.ID]bool{}
		}
		known[h.ID] = true
		list = append(list, runs.Handler{ID: h.ID, Client: h.Client, Type: h.Name, Kind: h.Summary, Digest: h.Digest})
	}
	return list
}

// claimHandler is a handler in the answer to a claim.
type claimHandler struct {
	HandlerID job.ID  `json:"handler_id"`
	Client    *string `json:"client" schema:"Name"`
	Type      string  `json:"type" schema:"Name"`
	Kind      string  `json:"kind" enum:"exec,http,script,wasi,container"`
	Digest    string  `json:"digest" pattern:"^sha256:[0-9a-f]{64}$"`
}

// AppendHandlers appends the field handlers after other fields, if the list is not empty.
func AppendHandlers(b []byte, list []runs.Handler) ([]byte, error) {
	if len(list) == 0 {
		return b, nil
	}
	documents := make([]claimHandler, len(list))
	for i, h := range list {
		documents[i] = claimHandler{h.ID, web.OrNull(h.Client), h.Type, h.Kind, h.Digest.String()}
	}
	text, err := json.Marshal(documents, web.DocumentOptions)
	return append(append(b, `,"handlers":`...), text...), err
}
