package files

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/named"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// Filesets answers the routes of filesets.
type Filesets struct {
	routes   named.Routes
	blobs    *Blobs
	catchUp  func(ctx context.Context, minSeq uint64) error
	manifest web.BodyRule
	metrics  filesetMetrics
}

// NewFilesets returns the handlers of filesets.
func NewFilesets(blobs *Blobs, engine backend.Engine) *Filesets {
	s := &Filesets{
		blobs: blobs, catchUp: engine.CatchUp, metrics: newFilesetMetrics(blobs.Registry),
		manifest: web.BodyRule{Lane: blobs.Manifests, Limit: fileset.MaxManifestBytes, Types: []string{web.MIMEJSON}},
	}
	s.routes = named.Routes{
		Kind: job.FilesetDocument, Param: "name", Engine: engine, Page: filesetsPage,
		Hold: func(c echo.Context, n int64) (*web.Share, error) {
			if err := web.CatchUp(c, engine.CatchUp); err != nil {
				return nil, err
			}
			return web.Hold(c, blobs.Documents, n)
		},
		Name: func(c echo.Context) (client, name string, err error) {
			q, err := s.filesetQuery(c)
			return q.client, q.name, err
		},
	}
	return s
}

// List answers GET /filesets, History GET /filesets/{name}/history, and Delete DELETE /filesets/{name}. A later collection
// removes the blobs of a deleted fileset.
func (s *Filesets) List(c echo.Context) error    { return s.routes.List(c) }
func (s *Filesets) History(c echo.Context) error { return s.routes.History(c) }
func (s *Filesets) Delete(c echo.Context) error  { return s.routes.Delete(c) }

// filesetDocument is the document of a version of a fileset. A version that deleted the fileset has no manifest.
type filesetDocument struct {
	FilesetID job.ID  `json:"fileset_id"`
	Client    *string `json:"client"` // null: for all clients
	Name      string  `json:"name"`
	Version   int     `json:"version"`
	Newest    bool    `json:"newest"`
	Deleted   bool    `json:"deleted,omitzero"`
	Gone      bool    `json:"gone,omitzero"`
	Manifest  string  `json:"manifest,omitzero"`
	Files     int     `json:"files"`
	Bytes     int64   `json:"bytes"`
	By        string  `json:"by,omitzero"`
	CreatedAt int64   `json:"created_at"`
}

func documentOfFileset(f *document.Named) filesetDocument {
	d := filesetDocument{
		FilesetID: f.ID, Client: web.OrNull(f.Client), Name: f.Name, Version: f.Version, Newest: f.Newest, Deleted: f.Deleted, Gone: f.Gone,
		By: f.By, CreatedAt: f.CreatedAt,
	}
	if !f.Deleted {
		d.Manifest = f.Digest.String()
		d.Files, d.Bytes, _ = job.ParseFilesetSummary(f.Summary) // the command was decoded, so it is one
	}
	return d
}

// filesetsDocument is a page of filesets. If more follow, next is name/client of the last one of the page.
type filesetsDocument struct {
	Filesets []filesetDocument `json:"filesets"`
	Next     *string           `json:"next"`
}

func filesetsPage(list []document.Named, next *string) any {
	page := filesetsDocument{make([]filesetDocument, len(list)), next}
	for i := range list {
		page.Filesets[i] = documentOfFileset(&list[i])
	}
	return page
}

// headerVersion is the version of a fileset, in answers with its files.
const headerVersion = "Daybook-Fileset-Version"

// filesetQuery is the content of the path and the query of a request about a fileset.
type filesetQuery struct {
	client, name string
	version      int // 0: the newest
	patterns     fileset.Patterns
	cond         job.Condition // of a PUT
	by           string
}

func (s *Filesets) filesetQuery(c echo.Context) (q filesetQuery, err error) {
	q.name = c.Param("name")
	if err := web.BadField("name", job.CheckName("name", q.name)); err != nil {
		return q, err
	}
	var patterns []string
	for _, p := range web.Parameters(c) {
		switch p.Key {
		case "client":
			q.client = p.Value
			if err := s.blobs.CheckClient(q.client); err != nil {
				return q, err
			}
			err = web.BadField(p.Key, job.CheckName(p.Key, p.Value))
		case "version":
			q.version, err = named.Version(p)
		case "pattern":
			patterns = append(patterns, p.Value)
		}
		if err != nil {
			return q, err
		}
	}
	q.patterns, err = fileset.ParsePatterns(patterns)
	return q, err
}
