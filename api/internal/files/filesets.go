package files

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/named"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
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

// filesetName describes the path and the query of a request about a fileset.
type filesetName struct {
	Name   string `path:"name" schema:"Name" doc:"name of the fileset"`
	Client string `query:"client" schema:"Name" doc:"whose fileset; default: of no client"`
}

// manifestDocument describes a manifest as package fileset writes it.
type manifestDocument struct {
	Format           int            `json:"format" required:"true" minimum:"1" maximum:"1"`
	Files            []manifestFile `json:"files,omitzero" maxItems:"100000" nullable:"true"`
	EmptyDirectories []string       `json:"empty_directories,omitzero" maxItems:"100000" minLength:"1" maxLength:"1024"`
}

type manifestFile struct {
	Path       string `json:"path" required:"true" minLength:"1" maxLength:"1024" doc:"relative, with slashes"`
	Blob       string `json:"blob" required:"true" pattern:"^sha256:[0-9a-f]{64}$" doc:"address of the content"`
	Size       int64  `json:"size" required:"true" minimum:"0" maximum:"68719476736" doc:"bytes"`
	Executable bool   `json:"executable,omitzero"`
}

// Routes returns the routes of filesets. A later collection removes the blobs of a deleted fileset.
func (s *Filesets) Routes() []Route {
	bytes := openapi.Plain(openapi.Of("string"))
	about := func(id, summary, text string, replies []operation.Reply, refusals ...int) operation.About {
		return operation.About{ID: id, Tag: "Filesets", Summary: summary, Text: text, Replies: replies, Refusals: refusals}
	}
	put := about("putFileset", "Store a version of a fileset",
		"The body is a tar archive, which may be compressed with gzip or zstd, or a manifest whose blobs are stored. The\n"+
			"server sees from the bytes how an archive is compressed. The newest 20 versions are kept.\n",
		named.Stored[filesetDocument]("The newest version has the same files. No version was stored.", "The version is stored."), 409, 412, 501, 503, 507)
	put.BodyRequired, put.BodyText = true, "an archive, of any of the usual media types or without one; or a manifest"
	put.Bodies = map[string]openapi.Shape{web.MIMEJSON: openapi.JSON[manifestDocument](openapi.InRequest), MIMETar: bytes, "application/gzip": bytes, "application/zstd": bytes}
	files := named.Read[manifestDocument]("the manifest or the archive")
	files[0].Headers = append(files[0].Headers, headerVersion)
	for _, kind := range []string{MIMETar, MIMETarGzip, MIMETarZstd} {
		files[0].Content[kind] = bytes
	}
	return []Route{
		{http.MethodGet, "/filesets", false, operation.Described[named.ListQuery](http.MethodGet, "/filesets", about("listFilesets", "List filesets",
			"Each fileset is in its newest version, in the order of name and client.", named.Read[filesetsDocument]("a page of the list"), 503), s.routes.List)},
		{http.MethodPut, "/filesets/:name", false, operation.Described[struct {
			filesetName
			named.PutHeaders
		}](http.MethodPut, "/filesets/:name", put, s.Put)},
		{http.MethodGet, "/filesets/:name", false, operation.Described[struct {
			filesetName
			named.VersionQuery
			Patterns []string `query:"pattern*" maxItems:"32" minLength:"1" doc:"which files, by their whole paths; several are joined, and those that begin with ! exclude files"`
			named.ReadHeaders
		}](http.MethodGet, "/filesets/:name", about("fileset", "Read a fileset",
			"The manifest, or an archive if the Accept header names one of its media types before JSON.\n", files, 404, 501, 503), s.Get)},
		{http.MethodDelete, "/filesets/:name", false, operation.Described[struct {
			filesetName
			named.DeleteHeaders
		}](http.MethodDelete, "/filesets/:name", about("deleteFileset", "Delete a fileset", "",
			named.Removed("The fileset is deleted, with the files of all versions. Its history stays."), 404, 412, 503, 507), s.routes.Delete)},
		{http.MethodGet, "/filesets/:name/history", false, operation.Described[struct {
			filesetName
			named.ReadHeaders
		}](http.MethodGet, "/filesets/:name/history", about("filesetHistory", "Read the history of a fileset",
			"The newest 20 changes, the newest first. A deleted fileset still has one.", named.Read[filesetsDocument]("a page of the list"), 404, 503), s.routes.History)},
	}
}

// filesetDocument is the document of a version of a fileset. A version that deleted the fileset has no manifest.
type filesetDocument struct {
	FilesetID job.ID  `json:"fileset_id"`
	Client    *string `json:"client" schema:"Name" doc:"null if the fileset belongs to no client"`
	Name      string  `json:"name" schema:"Name"`
	named.Change
	Manifest string `json:"manifest,omitzero" pattern:"^sha256:[0-9a-f]{64}$" doc:"address of the manifest"`
	Files    int    `json:"files" minimum:"0" maximum:"100000"`
	Bytes    int64  `json:"bytes" minimum:"0" doc:"bytes of all files"`
}

func documentOfFileset(f *document.Named) filesetDocument {
	d := filesetDocument{FilesetID: f.ID, Client: web.OrNull(f.Client), Name: f.Name, Change: named.ChangeOf(f)}
	if !f.Deleted {
		d.Manifest = f.Digest.String()
		d.Files, d.Bytes, _ = job.ParseFilesetSummary(f.Summary) // the command was decoded, so it is one
	}
	return d
}

// filesetsDocument is a page of filesets. If more follow, next is name/client of the last one of the page.
type filesetsDocument struct {
	Filesets []filesetDocument `json:"filesets" maxItems:"1000"`
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
