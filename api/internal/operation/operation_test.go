package operation

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

type sample struct {
	ID     job.ID  `path:"id"`
	Limit  int     `query:"limit" minimum:"1" maximum:"5" default:"3"`
	Status *string `query:"status" enum:"a,b"`
	Name   string  `query:"name" schema:"Name"`
	MinSeq uint64  `header:"Daybook-Min-Seq"`
	Body   struct {
		Priority *int64 `json:"priority" minimum:"0" maximum:"9"`
		Text     string `json:"text" maxLength:"4"`
	}
}

type sampleAnswer struct {
	Status int
	Seq    uint64 `header:"Daybook-Seq"`
	Body   map[string]any
}

// patient is an answer whose request has no deadline.
type patient struct{ *httptest.ResponseRecorder }

func (patient) SetReadDeadline(time.Time) error { return nil }

// TestRead: parameters and fields are checked by the tags, and a refusal names the parameter or field.
func TestRead(t *testing.T) {
	budget := web.NewLane("", 1<<20)
	rules := Rules{Optional: &web.BodyRule{Lane: budget, Limit: 1 << 10, Types: []string{web.MIMEJSON}, Optional: true}}
	var got *sample
	failure := error(nil)
	op := New(rules, http.MethodPost, "/things/:id", About{ID: "x", Answers: map[int]string{200: "a", 202: "b"}}, func(_ context.Context, in *sample) (sampleAnswer, error) {
		got = in
		return sampleAnswer{http.StatusAccepted, 7, map[string]any{"limit": in.Limit}}, failure
	})
	testkit.Equal(t, op.Query, "limit status name", "query")
	id := job.NewID(1, 2, 3).String()
	send := func(id, query, seq, body string) (*httptest.ResponseRecorder, error) {
		list := testkit.Must(web.ParseQuery(query, op.Query))(t)
		r := httptest.NewRequest(http.MethodPost, "/things/x", strings.NewReader(body))
		r.Header.Set("Content-Type", web.MIMEJSON)
		if seq != "" {
			r.Header.Set("Daybook-Min-Seq", seq)
		}
		w := httptest.NewRecorder()
		c := echo.New().NewContext(r, patient{w})
		c.SetParamNames("id")
		c.SetParamValues(id)
		web.SetParameters(c, list)
		return w, op.Handle(c)
	}
	w, err := send(id, "", "", "")
	testkit.Holds(t, err == nil && w.Code == http.StatusAccepted && w.Header().Get("Daybook-Seq") == "7" &&
		w.Body.String() == "{\"limit\":3}\n", w.Code, w.Header(), w.Body, err)
	testkit.Must(send(id, "limit=5&status=a&name=n", "9", `{"priority":9,"text":"1234"}`))(t)
	testkit.Holds(t, got.Limit == 5 && *got.Status == "a" && got.Name == "n" && got.MinSeq == 9 && *got.Body.Priority == 9, got)
	for field, c := range map[string][4]string{
		"id":              {"x", "", "", ""},
		"limit":           {id, "limit=6", "", ""},
		"status":          {id, "status=", "", ""}, // an empty value is no missing one
		"name":            {id, "name=", "", ""},
		"Daybook-Min-Seq": {id, "", "-1", ""},
		"priority":        {id, "", "", `{"priority":10}`},
		"text":            {id, "", "", `{"text":"12345"}`},
		"Text":            {id, "", "", `{"Text":"1"}`},
	} {
		_, err := send(c[0], c[1], c[2], c[3])
		p, ok := errors.AsType[*web.Problem](err)
		testkit.Holds(t, ok && p.Status == http.StatusBadRequest && p.Field == field, field, err)
	}
	_, err = send(id+"/more", "", "", "")
	testkit.Holds(t, err != nil && strings.HasPrefix(err.Error(), "route_not_found"), err)
	failure = errors.New("after the change was stored")
	w, err = send(id, "", "", "")
	testkit.Holds(t, err == failure && w.Header().Get("Daybook-Seq") == "7" && w.Body.Len() == 0, w.Header(), w.Body, err)
	testkit.Equal(t, budget.Used(), 0, "bytes of the budget are held")
	described := op.Describe(&openapi.Schemas{})
	testkit.Holds(t, described.Path == "/things/{id}" && len(described.Parameters) == 5 && !described.Body.Required &&
		described.Responses[202] != nil && described.Responses[415] != nil, described)
}

// TestForms: a type that is no request or answer is refused when the routes are built.
func TestForms(t *testing.T) {
	about := About{Answers: map[int]string{200: "a"}}
	for name, build := range map[string]func(){
		"field without a place": func() {
			New(Rules{}, "GET", "/", about, func(context.Context, *struct{ X int }) (s struct{}, err error) { return s, err })
		},
		"body of a GET": func() {
			New(Rules{}, "GET", "/", about, func(context.Context, *struct{ Body part }) (s struct{}, err error) { return s, err })
		},
		"answer with an unknown field": func() {
			New(Rules{}, "GET", "/", about, func(context.Context, *struct{}) (s struct{ X int }, err error) { return s, err })
		},
		"two statuses": func() {
			New(Rules{}, "GET", "/", About{Answers: map[int]string{200: "a", 201: "b"}}, func(context.Context, *struct{}) (s struct{ Body part }, err error) { return s, err })
		},
	} {
		func() {
			defer func() { testkit.Holds(t, recover() != nil, name, "is accepted") }()
			build()
		}()
	}
}

type part struct{}

type rawRequest struct {
	ID    job.ID   `path:"id"`
	After job.ID   `query:"after"`
	Tag   string   `header:"If-None-Match" read:"elsewhere"`
	Names nameList `query:"names" list:"commas"`
}

// nameList is a list that reads itself.
type nameList []string

func (n *nameList) UnmarshalText(text []byte) error {
	*n = strings.Split(string(text), ",")
	return nil
}

// TestWritten: a function that writes its answer itself has a checked request, and is described by it and by its replies. A
// header that the function reads itself is only described, so it can be given twice.
func TestWritten(t *testing.T) {
	about := About{ID: "x", Refusals: []int{404}, Replies: []Reply{{Status: 200, Text: "the bytes", Headers: []string{"ETag"}, Content: map[string]openapi.Shape{web.MIMEText: openapi.Plain(openapi.Of("string"))}}}}
	var got *rawRequest
	op := Written(Rules{}, http.MethodGet, "/things/:id", about, func(c echo.Context, in *rawRequest) error {
		got = in
		return web.Answer(c, http.StatusOK, web.MIMEText, []byte("text"))
	})
	id := job.NewID(1, 2, 3).String()
	send := func(query string) (*httptest.ResponseRecorder, error) {
		list := testkit.Must(web.ParseQuery(query, op.Query))(t)
		r, w := httptest.NewRequest(http.MethodGet, "/things/x", nil), httptest.NewRecorder()
		r.Header["If-None-Match"] = []string{"a", "b"}
		c := echo.New().NewContext(r, patient{w})
		c.SetParamNames("id")
		c.SetParamValues(id)
		web.SetParameters(c, list)
		return w, op.Handle(c)
	}
	w, err := send("names=a,b&after=" + id)
	testkit.Holds(t, err == nil && w.Body.String() == "text" && got.After.String() == id && len(got.Names) == 2 && got.Tag == "", got, err)
	var p *web.Problem
	_, err = send("after=x")
	testkit.Holds(t, errors.As(err, &p) && p.Code == web.CodeBadID && p.Field == "after", err)
	d := op.Describe(&openapi.Schemas{})
	testkit.Holds(t, len(d.Parameters) == 4 && !*d.Parameters[2].Explode && d.Parameters[3].Name == "If-None-Match" && len(d.Responses) == 5 &&
		d.Responses[200].Headers["ETag"].Ref != "" && d.Path == "/things/{id}", d)
}
