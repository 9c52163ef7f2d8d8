// Package named has the routes that all kinds of named documents share: lists, histories and deletes, and the conditions
// and names in the headers of changes. Each kind adds its own routes for its documents.
package named

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// Routes are the shared routes of a kind.
type Routes struct {
	Kind   job.DocumentKind
	Param  string // of the path, with the name of the document
	Engine backend.Engine
	// Hold waits until the state has caught up, and then takes a share for a page of documents.
	Hold func(c echo.Context, n int64) (*web.Share, error)
	// Name returns the client and the name in a request.
	Name func(c echo.Context) (client, name string, err error)
	// Page returns the answer with a list. If more follow, next is name/client of the last one.
	Page func(list []document.Named, next *string) any
}

// List answers with a page of documents, each in its newest version, in the order of name and client.
func (r *Routes) List(c echo.Context) error {
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
				err = web.BadRequest(p.Key, fmt.Sprintf("after must be %s/client, the value of next of the previous page", r.Param))
			}
		}
		if err != nil {
			return err
		}
	}
	return r.answer(c, func() (list []document.Named, next *string, err error) {
		list, more, err := r.Engine.Documents(&job.KeyOf(c.Request().Context()).By().Scope, r.Kind, afterName, afterClient, limit)
		if more && len(list) > 0 {
			last := &list[len(list)-1]
			next = web.OrNull(last.Name + "/" + last.Client)
		}
		return list, next, err
	})
}

// History answers with the versions of a document that are kept, also if it was deleted, the newest first.
func (r *Routes) History(c echo.Context) error {
	client, name, err := r.Name(c)
	if err != nil {
		return err
	}
	return r.answer(c, func() (list []document.Named, next *string, err error) {
		list, err = r.Engine.DocumentHistory(r.Kind, client, name)
		return list, nil, err
	})
}

func (r *Routes) answer(c echo.Context, read func() (list []document.Named, next *string, err error)) error {
	held, err := r.Hold(c, web.MaxRowsBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	list, next, err := read()
	if err != nil {
		return err
	}
	text, err := web.EncodePage(c.Request().Context(), held, r.Page(list, next))
	if err != nil {
		return err
	}
	return web.AnswerTagged(c, web.MIMEJSON, text, text)
}

// Delete answers the request to delete a document.
func (r *Routes) Delete(c echo.Context) error {
	d := job.DeleteDocument{Kind: r.Kind}
	var err error
	if d.Client, d.Name, err = r.Name(c); err != nil {
		return err
	}
	if d.If, d.By, err = Condition(c); err != nil {
		return err
	}
	_, receipt, err := r.Engine.DeleteDocument(c.Request().Context(), d)
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
}

const (
	ifMatch     = "If-Match"
	ifNoneMatch = "If-None-Match"
)

// Condition reads the headers of a change: the condition on the stored document, and who makes the change.
func Condition(c echo.Context) (cond job.Condition, by string, err error) {
	r := c.Request()
	if by = r.Header.Get(web.HeaderBy); by != "" {
		if err := job.CheckText(web.HeaderBy, by, 1, job.MaxByBytes); err != nil {
			return "", "", web.BadField(web.HeaderBy, err)
		}
	}
	tags, none := r.Header[ifMatch], r.Header[ifNoneMatch]
	switch {
	case len(tags) == 0 && len(none) == 0:
		return "", by, nil
	case len(none) > 0:
		if r.Method == http.MethodDelete || len(tags) > 0 || len(none) > 1 || none[0] != "*" {
			return "", "", web.BadRequest(ifNoneMatch, "a change may have If-None-Match: * if it stores a document, and no other condition beside it")
		}
		return job.IfNone, by, nil
	case len(tags) == 1 && tags[0] == "*":
		return job.IfExists, by, nil
	case len(tags) == 1:
		// An intermediate that compresses answers makes tags weak, and some answers have further parts after a semicolon.
		tag, quoted := strings.CutPrefix(strings.TrimPrefix(tags[0], "W/"), `"`)
		tag, closed := strings.CutSuffix(tag, `"`)
		tag, _, _ = strings.Cut(tag, ";")
		if cond = job.Condition(tag); quoted && closed && tag != "" && tag != string(job.IfNone) && tag != string(job.IfExists) && cond.Check() == nil {
			return cond, by, nil
		}
	}
	return "", "", web.BadRequest(ifMatch, `If-Match must be * or one tag: the number of a version or the digest of a document, as "7"`)
}

// Change is the part of a version's document that all kinds have.
type Change struct {
	Version   int    `json:"version" minimum:"1"`
	Newest    bool   `json:"newest"`
	Deleted   bool   `json:"deleted,omitzero" doc:"this change deleted what was stored. Such a version only has its number, its time and who made it"`
	Gone      bool   `json:"gone,omitzero" doc:"a later change deleted it, so the server does not keep what was stored"`
	By        string `json:"by,omitzero" maxLength:"100" doc:"who made this change, as the request said"`
	CreatedAt int64  `json:"created_at" minimum:"0"`
}

// ChangeOf describes a version.
func ChangeOf(d *document.Named) Change {
	return Change{d.Version, d.Newest, d.Deleted, d.Gone, d.By, d.CreatedAt}
}

// Version reads the parameter that selects a version.
func Version(p web.Parameter) (int, error) {
	n, err := strconv.Atoi(p.Value)
	if err != nil || n < 1 || strconv.Itoa(n) != p.Value {
		return 0, web.BadRequest(p.Key, fmt.Sprintf("version must be a number from 1 on, not %q", web.Shortened(p.Value)))
	}
	return n, nil
}

// Tag returns the entity tag of the newest version of a document. It is weak, because the answer can be compressed.
func Tag(d *document.Named) string { return `W/"` + strconv.Itoa(d.Version) + `"` }
