package api

import (
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job/handler"
)

// miniqHandler is a handler in the form of miniq's clients.
type miniqHandler struct {
	Lang       string        `json:"lang" required:"true" enum:"http,node,python,php,sh"`
	Body       string        `json:"body" required:"true" doc:"source, or the URL if lang is http"`
	Before     string        `json:"before"`
	BeforeEach string        `json:"beforeEach"`
	AfterEach  string        `json:"afterEach"`
	EID        string        `json:"eid" maxLength:"128"`
	Options    *miniqOptions `json:"options" nullable:"false"`
}

// miniqOptions are the options that miniq knows, and ours.
type miniqOptions struct {
	handler.Options
	BatchSize int `json:"batchSize" minimum:"0" maximum:"1000" doc:"the same as batch_size"`
}

// document returns the handler as it is stored.
func (m *miniqHandler) document() *handler.Document {
	// Lines of output create jobs of all types, as in miniq. Handlers in Daybook's form list the types.
	d := &handler.Document{ChainTypes: []string{handler.AnyType}, Before: m.Before, BeforeEach: m.BeforeEach, AfterEach: m.AfterEach, EID: m.EID}
	if m.Lang == handler.HTTP {
		d.Kind, d.URL = handler.HTTP, m.Body
	} else {
		d.Kind, d.Lang, d.Source = handler.Script, m.Lang, m.Body
	}
	if m.Options != nil {
		o := m.Options.Options
		if m.Options.BatchSize != 0 {
			o.BatchSize = m.Options.BatchSize
		}
		d.Options = &o
	}
	return d
}

// addMiniq is miniq's form of PUT /handlers/{type}.
func (s *handlers) addMiniq(c echo.Context) error {
	p, err := newHandler(c)
	if err != nil {
		return err
	}
	var m miniqHandler
	body, err := web.ReadObject(c, &s.bodies.handler, &m)
	if err != nil {
		return err
	}
	defer body.Release()
	switch {
	case m.Lang == "":
		return web.BadRequest("lang", "lang is missing; it must be http or the language of a script")
	case m.Body == "":
		return web.BadRequest("body", "body is missing; it must be the source of the handler, or its URL")
	}
	return s.store(c, body, body.Bytes, p, m.document())
}
