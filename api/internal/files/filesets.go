package files

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

type FilesetOperator interface {
	PutFileset(ctx context.Context, p job.PutFileset) (applied.FilesetPut, ingest.Receipt, error)
	DeleteFileset(ctx context.Context, d job.DeleteFileset) (ingest.Receipt, error)
}

type FilesetReader interface {
	Fileset(client, name string, version int) (document.Fileset, error)
	FilesetVersions(client, name string) ([]document.Fileset, error)
	Filesets(afterName, afterClient string, limit int) (list []document.Fileset, more bool, err error)
}

// Filesets answers the routes of filesets.
type Filesets struct {
	blobs    *Blobs
	engine   FilesetOperator
	queries  FilesetReader
	catchUp  func(ctx context.Context, minSeq uint64) error
	manifest web.BodyRule
	metrics  filesetMetrics
}

// NewFilesets returns the handlers of filesets. catchUp is CatchUp of the engine.
func NewFilesets(blobs *Blobs, engine FilesetOperator, queries FilesetReader, catchUp func(ctx context.Context, minSeq uint64) error) *Filesets {
	return &Filesets{
		blobs: blobs, engine: engine, queries: queries, catchUp: catchUp, metrics: newFilesetMetrics(blobs.Registry),
		manifest: web.BodyRule{Lane: blobs.Manifests, Limit: fileset.MaxManifestBytes, Types: []string{web.MIMEJSON}},
	}
}

// filesetDocument is the document of a version of a fileset.
type filesetDocument struct {
	FilesetID job.ID  `json:"fileset_id"`
	Client    *string `json:"client"` // null: for all clients
	Name      string  `json:"name"`
	Version   int     `json:"version"`
	Newest    bool    `json:"newest"`
	Manifest  string  `json:"manifest"`
	Files     int     `json:"files"`
	Bytes     int64   `json:"bytes"`
	CreatedAt int64   `json:"created_at"`
}

func documentOfFileset(f *document.Fileset) filesetDocument {
	return filesetDocument{
		FilesetID: f.ID, Client: web.OrNull(f.Client), Name: f.Name, Version: f.Version, Newest: f.Newest, Manifest: f.Manifest.String(),
		Files: f.Files, Bytes: f.Bytes, CreatedAt: f.CreatedAt,
	}
}

// headerVersion is the version of a fileset, in answers with its files.
const headerVersion = "Daybook-Fileset-Version"

// filesetQuery is the content of the path and the query of a request about a fileset.
type filesetQuery struct {
	client, name string
	version      int // 0: the newest
	patterns     fileset.Patterns
}

// page waits until the state has caught up, and then takes a share for a page of documents.
func (s *Filesets) page(c echo.Context, n int64) (*web.Share, error) {
	if err := web.CatchUp(c, s.catchUp); err != nil {
		return nil, err
	}
	return web.Hold(c, s.blobs.Documents, n)
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
			q.version, err = strconv.Atoi(p.Value)
			if err != nil || q.version < 1 || strconv.Itoa(q.version) != p.Value {
				err = web.BadRequest(p.Key, fmt.Sprintf("version must be a number from 1 on, not %q", web.Shortened(p.Value)))
			}
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

// Versions answers GET /filesets/{name}/versions, the newest version first.
func (s *Filesets) Versions(c echo.Context) error {
	q, err := s.filesetQuery(c)
	if err != nil {
		return err
	}
	held, err := s.page(c, web.SmallShareBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	list, err := s.queries.FilesetVersions(q.client, q.name)
	if err != nil {
		return err
	}
	return answerFilesets(c, held, list, nil)
}

// List answers GET /filesets with a page of filesets in the order of name and client.
func (s *Filesets) List(c echo.Context) error {
	limit, afterName, afterClient := job.MaxPage, "", ""
	for _, p := range web.Parameters(c) {
		var err error
		switch p.Key {
		case "limit":
			limit, err = web.PageLimit(p)
		case "after":
			var slash bool
			afterName, afterClient, slash = strings.Cut(p.Value, "/")
			if !slash || job.CheckName(p.Key, afterName) != nil || afterClient != "" && job.CheckName(p.Key, afterClient) != nil {
				err = web.BadRequest(p.Key, "after must be name/client, the value of next of the previous page")
			}
		}
		if err != nil {
			return err
		}
	}
	held, err := s.page(c, web.MaxRowsBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	list, more, err := s.queries.Filesets(afterName, afterClient, limit)
	if err != nil {
		return err
	}
	var next *string
	if more && len(list) > 0 {
		last := &list[len(list)-1]
		next = web.OrNull(last.Name + "/" + last.Client)
	}
	return answerFilesets(c, held, list, next)
}

// filesetsDocument is a page of filesets. If more follow, next is name/client of the last one of the page.
type filesetsDocument struct {
	Filesets []filesetDocument `json:"filesets"`
	Next     *string           `json:"next"`
}

func answerFilesets(c echo.Context, held *web.Share, list []document.Fileset, next *string) error {
	page := filesetsDocument{make([]filesetDocument, len(list)), next}
	for i := range list {
		page.Filesets[i] = documentOfFileset(&list[i])
	}
	text, err := web.EncodePage(c.Request().Context(), held, page)
	if err != nil {
		return err
	}
	return web.AnswerTagged(c, web.MIMEJSON, text, text)
}

// Delete answers DELETE /filesets/{name}, which deletes all versions. Their blobs are collected later.
func (s *Filesets) Delete(c echo.Context) error {
	q, err := s.filesetQuery(c)
	if err != nil {
		return err
	}
	receipt, err := s.engine.DeleteFileset(c.Request().Context(), job.DeleteFileset{Client: q.client, Name: q.name})
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
}
