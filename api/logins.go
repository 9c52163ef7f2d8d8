package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/oidc"
	"github.com/daybookq/daybook/job"
)

// logins are what browsers use the server with.
type logins struct {
	engine    backend.Engine
	authorize *authorizer
	refusals  *refusals
	log       zerolog.Logger
}

func (l logins) routes(r operation.Rules) []route {
	about := func(id, summary, text string, answers answers, refusals ...int) operation.About {
		return operation.About{ID: id, Tag: "Access", Summary: summary, Text: text, Answers: answers, Refusals: refusals}
	}
	page := operation.Reply{Status: http.StatusOK, Text: "a page that shows the path of the log-in", Headers: []string{"Set-Cookie", "Cache-Control"},
		Content: map[string]openapi.Shape{web.MIMEHTML: openapi.Plain(openapi.Of("string"))}}
	callback := written(r, http.MethodGet, web.ReturnPath, operation.About{ID: "finishLogin", Tag: "Access", Summary: "Come back from the issuer",
		Text:    "The issuer sends the browser of a person here. The page sets the cookie. It has other parameters that the issuer adds.\n",
		Replies: []operation.Reply{page}, Refusals: []int{400, 401, 404, 429, 503, 507}}, l.finish)
	callback.query += " *" // issuers add parameters, and clients must ignore those that they do not know
	return []route{
		cold(r, http.MethodPost, "/login", about("login", "Log in with a key", "The answer sets a cookie, which stands for the key for twelve hours.\n",
			answers{200: "as whoami"}, 401, 429, 503, 507), l.login),
		written(r, http.MethodGet, "/login", operation.About{ID: "beginLogin", Tag: "Access", Summary: "Log in at the issuer", Replies: []operation.Reply{
			{Status: http.StatusSeeOther, Text: "to the issuer", Headers: []string{"Location", "Set-Cookie", "Cache-Control"}},
		}, Refusals: []int{404, 503}, Faultless: true}, l.begin),
		callback,
		cold(r, http.MethodPost, "/logout", about("logout", "End the login of this browser", "", answers{204: "The login has ended, and the browser forgets the cookie."}, 503, 507), l.logout),
	}
}

// loggedIn is the answer to a log-in.
type loggedIn struct {
	Seq    uint64 `header:"Daybook-Seq"`
	Cookie string `header:"Set-Cookie"`
	Cache  string `header:"Cache-Control"`
	Body   whoamiDocument
}

func (l logins) login(ctx context.Context, in *struct {
	Body struct {
		Key string `json:"key" minLength:"1" maxLength:"16384" required:"true" doc:"the text of a key, or a token of an issuer"`
	} `required:"true"`
}) (out loggedIn, err error) {
	if web.Foreign(operation.RequestOf(ctx)) {
		return out, &web.Problem{Status: http.StatusForbidden, Code: "forbidden_origin", Detail: "a web page of another origin cannot log in; it sends its key as Authorization: Bearer KEY"}
	}
	holder, err := l.authorize.holder(in.Body.Key)
	if err != nil {
		return out, l.refusals.refuse(operation.PeerOf(ctx), in.Body.Key, err)
	}
	made, text, seq, err := l.make(ctx, &holder, holder.key.ExpiresAt)
	out.Seq = seq
	if err != nil {
		return out, err
	}
	out.Cookie, out.Cache = l.cookie(operation.RequestOf(ctx), text), "no-store"
	out.Body = whoamiOf(holder.key, made.Until, text)
	return out, nil
}

func (l logins) cookie(r *http.Request, text string) string {
	return web.SetCookie(r, web.LoginCookie, text, job.MaxLoginMs*time.Millisecond, http.SameSiteStrictMode)
}

// holder is who a key or a token stands for.
type holder struct {
	key          *job.Key
	issuer, rule string // "" for a key
}

// tidied is how many logins that have ended a new one removes.
const tidied = 16

// make stores a login, which ends with the key or token at the latest. It removes logins that have ended, and the holder's oldest
// ones beyond MaxLoginsOfOne.
func (l logins) make(ctx context.Context, h *holder, ends int64) (made job.Login, text string, seq uint64, err error) {
	now := l.engine.Now()
	own, ended := l.engine.LoginsOf(h.key.Name, now)
	for _, old := range append(ended[:min(len(ended), tidied)], own[:max(0, len(own)-job.MaxLoginsOfOne+1)]...) {
		if _, err := l.end(ctx, old.Name, h.key.Name); err != nil {
			return made, "", 0, err
		}
	}
	var random [job.SecretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	text = job.LoginText(random)
	name, _ := job.LoginNameOf(text)
	made = job.Login{Name: string(name[:]), By: h.key.Name, Until: now + job.MaxLoginMs, Issuer: h.issuer, Rule: h.rule}
	if ends != 0 {
		made.Until = min(made.Until, ends)
	}
	if h.issuer == "" {
		made.KeySum = h.key.Sum
	}
	by := made.By[:min(len(made.By), job.MaxByBytes)]
	defer func() {
		if err == nil {
			l.log.Info().Bool("audit", true).Str("key", made.By).Int64("until", made.Until).Msg("a browser has logged in")
		}
	}()
	_, receipt, err := l.engine.PutDocument(ctx, job.PutDocument{Kind: job.LoginDocument, Name: made.Name, Summary: by, Document: made.Document(), If: job.IfNone, By: by})
	return made, text, receipt.Seq, err
}

// end ends a login. It is no error if the login has ended already.
func (l logins) end(ctx context.Context, name, by string) (seq uint64, err error) {
	_, receipt, err := l.engine.DeleteDocument(ctx, job.DeleteDocument{Kind: job.LoginDocument, Name: name, By: by[:min(len(by), job.MaxByBytes)]})
	if errors.Is(err, job.LoginNotFound) {
		err = nil
	}
	return receipt.Seq, err
}

type loggedOut struct {
	Seq    uint64 `header:"Daybook-Seq"`
	Cookie string `header:"Set-Cookie"`
}

func (l logins) logout(ctx context.Context, _ *nothing) (out loggedOut, err error) {
	r, key := operation.RequestOf(ctx), job.KeyOf(ctx)
	name, ok := job.LoginNameOf(web.CredentialsOf(r, web.Access{}).Logins[0])
	if !ok || key == nil {
		return out, web.BadRequest("", "the request has no login that could end; a key is good until it is revoked")
	}
	out.Seq, err = l.end(job.WithKey(ctx, nil), string(name[:]), key.Name) // the server ends it: a key with a scope may change no documents
	out.Cookie = l.cookie(r, "")
	return out, err
}

func (l logins) begin(c echo.Context, in *struct {
	Next string `query:"next" maxLength:"1024" doc:"the path of this server to show then; default: /"`
}) error {
	issuers := l.authorize.issuers
	if issuers == nil {
		return errNoIssuer
	}
	address, kept, err := issuers.Begin(in.Next, time.UnixMilli(l.engine.Now()))
	if err != nil {
		return tokenProblem(err)
	}
	h := c.Response().Header()
	h.Add(echo.HeaderSetCookie, web.SetCookie(c.Request(), web.FlowCookie, kept, oidc.FlowTime, http.SameSiteLaxMode))
	h.Set("Cache-Control", "no-store")
	return c.Redirect(http.StatusSeeOther, address)
}

// finishPage shows the path of a log-in. It is no redirect: a browser would count it as a part of the navigation from the issuer's
// site, and send neither the cookie, which is SameSite=Strict, nor a request that the guard accepts.
const finishPage = `<!doctype html>
<meta charset="utf-8">
<title>Daybook</title>
<meta http-equiv="refresh" content="0;url=%[1]s">
<p>You are logged in. <a href="%[1]s">Continue</a>
`

func (l logins) finish(c echo.Context, in *struct {
	Code  string `query:"code" maxLength:"4096" doc:"a code of the issuer"`
	State string `query:"state" maxLength:"4096" doc:"the state of the log-in that began in this browser"`
	Error string `query:"error" maxLength:"4096" doc:"why the issuer sends no code"`
}) error {
	issuers, r := l.authorize.issuers, c.Request()
	refused := func(err error) error { return l.refusals.refuse(web.PeerOf(r), "", err) }
	switch {
	case issuers == nil:
		return errNoIssuer
	case in.Error != "":
		return refused(&web.Problem{Status: http.StatusUnauthorized, Code: "login_failed", Detail: fmt.Sprintf("the issuer did not log you in: %q", web.Shortened(in.Error))})
	}
	id, next, err := issuers.Finish(r.Context(), web.CookieOf(r, web.FlowCookie), in.Code, in.State, time.UnixMilli(l.engine.Now()))
	if err != nil {
		return refused(tokenProblem(err))
	}
	_, text, _, err := l.make(r.Context(), &holder{&id.Key, id.Issuer, id.Rule}, 0)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Add(echo.HeaderSetCookie, l.cookie(r, text))
	h.Add(echo.HeaderSetCookie, web.SetCookie(r, web.FlowCookie, "", 0, http.SameSiteLaxMode))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	return web.Answer(c, http.StatusOK, web.MIMEHTML, fmt.Appendf(nil, finishPage, html.EscapeString(next)))
}
