package files

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
)

const (
	// MaxAddresses is the largest number of addresses in a request. Such a body has about 750 KB.
	MaxAddresses    = 10_000
	maxAddressBytes = 1 << 20
	// VerifiedFirst is the largest size of a blob that is verified before its first byte is sent. The answer for a
	// damaged small blob is then a status and not a broken connection.
	VerifiedFirst = 4 << 20
	// resolveAtOnce is the number of SHA-1 digests that a request looks up concurrently. In a bucket each look-up takes
	// tens of milliseconds.
	resolveAtOnce = 16
)

// Storage has the blobs of a server.
type Storage struct {
	// Store returns the store, or an error while it is not open: blob.ErrUnavailable if its bucket does not answer.
	Store     func() (*blob.Store, error)
	Collector *blob.Collector
	// Requests returns counts of the requests to the bucket for each of blob.RequestMethods. nil: there is no bucket.
	Requests func() map[string]blob.RequestStats
}

// Used returns the bytes of all blobs and uploads, or 0 before they are open.
func (s *Storage) Used() int64 {
	store, err := s.Store()
	if err != nil {
		return 0
	}
	return store.Used()
}

// Options are the parts of the server that the routes of files use.
type Options struct {
	Log         zerolog.Logger
	Storage     *Storage // nil: the server stores no blobs
	Registry    *prometheus.Registry
	CheckClient func(client string) error // refuses a name that no client can have
	Documents   *web.Lane                 // for answers
	Downloads   *web.Lane                 // for answers that are longer than memory
	Control     *web.Lane                 // for short request bodies
	Uploads     *web.Lane                 // for bodies that are longer than memory
	Manifests   *web.Lane                 // for the files and manifests of requests
}

// Blobs answers the routes of blobs.
type Blobs struct {
	Options
	addresses web.BodyRule
	metrics   blobMetrics
}

func NewBlobs(o Options) *Blobs {
	return &Blobs{
		Options: o, metrics: newBlobMetrics(o.Storage, o.Registry),
		addresses: web.BodyRule{Lane: o.Control, Limit: maxAddressBytes, Types: []string{web.MIMEJSON}},
	}
}

// NoBlobs is the refusal of a server that keeps no blobs.
func NoBlobs() *web.Problem {
	return &web.Problem{Status: http.StatusNotImplemented, Code: "no_blobs", Detail: "this server keeps no blobs: it was started with --blobs none"}
}

// Route is a route of files.
type Route struct {
	Method, Path string
	Hot          bool // it is called so often that its successes are logged only at debug level
	operation.Operation
}

// Routes returns the routes of blobs.
func (s *Blobs) Routes(r operation.Rules) []Route {
	bytes, digits := openapi.Plain(openapi.Of("string")), openapi.Plain(openapi.Pattern("^[0-9a-f]{64}$"))
	reply := func(status int, text string, shape openapi.Shape, kind string, headers ...string) operation.Reply {
		return operation.Reply{Status: status, Text: text, Headers: headers, Content: map[string]openapi.Shape{kind: shape}}
	}
	const stored, replaced = "The blob is stored.", "The blob was stored already. Its file was replaced, which repairs it if it was damaged."
	document := openapi.JSON[blobDocument](openapi.InAnswer)
	put := operation.About{
		ID: "putBlob", Tag: "Blobs", Summary: "Store a blob",
		Text:   "The body is the blob, of up to 64 GiB. The answer comes when it is on disk. Its address is the SHA-256 of its bytes.\n",
		Bodies: map[string]openapi.Shape{"*/*": bytes}, BodyText: "the bytes of the blob, of any media type", BodyRequired: true,
		Replies: []operation.Reply{
			reply(http.StatusOK, replaced, document, web.MIMEJSON, echo.HeaderLocation), reply(http.StatusCreated, stored, document, web.MIMEJSON, echo.HeaderLocation),
		},
		Refusals: []int{501, 503, 507},
	}
	putAt, castaway := put, put
	putAt.ID, putAt.Summary, putAt.Text = "putBlobAt", "Store a blob of an address", "As PUT /blobs. A body with another digest than the address is refused.\n"
	putAt.Refusals = append([]int{422}, put.Refusals...)
	castaway.ID, castaway.Summary, castaway.Text = "putCastawayBlob", "Store a blob as in CAStaway", "As PUT /blobs. The answer is the address as 64 hex digits.\n"
	castaway.Replies = []operation.Reply{reply(http.StatusOK, replaced, digits, web.MIMEText), reply(http.StatusCreated, stored, digits, web.MIMEText)}
	get := operation.About{
		ID: "blob", Tag: "Blobs", Summary: "Read a blob",
		Replies: []operation.Reply{
			reply(http.StatusOK, "the bytes", bytes, echo.MIMEOctetStream, "ETag"),
			{Status: http.StatusPartialContent, Text: "the range of the bytes that the request names", Headers: []string{"ETag"},
				Content: map[string]openapi.Shape{echo.MIMEOctetStream: bytes, "multipart/byteranges": bytes}},
			{Status: http.StatusNotModified, Text: "The blob has the ETag of the request.", Headers: []string{"ETag"}},
		},
		Refusals: []int{404, 416, 501, 503},
	}
	getCastaway := get
	getCastaway.ID, getCastaway.Summary = "castawayBlob", "Read a blob as in CAStaway"
	return []Route{
		{http.MethodPut, "/blobs", false, operation.Written(r, http.MethodPut, "/blobs", put, s.put)},
		{http.MethodGet, "/blobs", false, operation.New(r, http.MethodGet, "/blobs", operation.About{
			ID: "listBlobs", Tag: "Blobs", Summary: "List blobs",
			Text:    "A page of the blobs of a client, or of those that all clients share, in the order of their addresses.",
			Answers: map[int]string{200: "a page of the list"}, Refusals: []int{501, 503},
		}, s.list)},
		{http.MethodPut, "/blobs/:address", false, operation.Written(r, http.MethodPut, "/blobs/:address", putAt, s.putAt)},
		{http.MethodGet, "/blobs/:address", true, operation.Written(r, http.MethodGet, "/blobs/:address", get, s.get)},
		{http.MethodPost, "/blobs/missing", false, operation.New(operation.Rules{Object: &s.addresses}, http.MethodPost, "/blobs/missing", operation.About{
			ID: "missingBlobs", Tag: "Blobs", Summary: "Find out which blobs are missing",
			Text: "Which of up to 10,000 blobs are not stored. The others are kept for at least 23 hours from now on. So a producer\n" +
				"stores the missing ones, and then creates jobs that name all of them.\n",
			Answers: map[int]string{200: "the missing ones, as the request has written them"}, Refusals: []int{501, 503},
		}, s.missing)},
		{http.MethodPost, "/blobs/collect", false, operation.New(r, http.MethodPost, "/blobs/collect", operation.About{
			ID: "collectBlobs", Tag: "Blobs", Summary: "Remove blobs that nothing names",
			Text: "Removes the blobs that have been stored for more than a day and that no job, output or handler names. It reads all\n" +
				"jobs, which may take minutes. The server does it regularly by itself.\n",
			Answers: map[int]string{200: "what was removed"}, Refusals: []int{409, 501, 503},
		}, s.collect)},
		{http.MethodPut, "/blob", false, operation.Written(r, http.MethodPut, "/blob", castaway, s.putCastaway)},
		{http.MethodGet, "/blob/:address", true, operation.Written(r, http.MethodGet, "/blob/:address", getCastaway, s.get)},
	}
}

// Describe adds the schema of addresses.
func Describe(s *openapi.Schemas) {
	openapi.Describe[address](s, "Address", openapi.Pattern("^((sha256:)?[0-9a-fA-F]{64}|[0-9a-fA-F]{40}|sha256-[0-9A-Za-z+/]{43}=)$").
		As("the address of a blob: sha256:<64 hex digits>, 64 hex digits, sha256-<base64>, or the 40 hex digits of a SHA-1"))
}

// ofClient is the parameter that says whose blobs a request is about.
type ofClient struct {
	Client *string `query:"client" schema:"Name" doc:"whose blobs; default: those that all clients share"`
}

// address is the address of a blob, in any of its forms.
type address struct{ blob.Ref }

func (a *address) UnmarshalText(text []byte) (err error) {
	a.Ref, err = blob.Parse(string(text))
	return err
}

type atAddress struct {
	Address address `path:"address" doc:"the address of the blob"`
	ofClient
}

// blobDocument describes a blob.
type blobDocument struct {
	Address   string `json:"address" pattern:"^sha256:[0-9a-f]{64}$"`
	SHA1      string `json:"sha1,omitzero" pattern:"^[0-9a-f]{40}$" doc:"only in the answer to an upload"`
	Size      int64  `json:"size" minimum:"0" doc:"bytes"`
	ChangedAt int64  `json:"changed_at" doc:"when the blob was stored last, or found by POST /blobs/missing"`
}

func documentOfBlob(i *blob.Info) blobDocument {
	d := blobDocument{Address: i.Address.String(), Size: i.Size, ChangedAt: i.Changed.UnixMilli()}
	if i.SHA1 != (blob.SHA1{}) {
		d.SHA1 = i.SHA1.String()
	}
	return d
}

// of returns the store, and the client whose blobs a request is about.
func (s *Blobs) of(in ofClient) (of *blob.Store, client string, err error) {
	if s.Storage == nil {
		return nil, "", NoBlobs()
	}
	if in.Client != nil {
		client = *in.Client
		if err := s.CheckClient(client); err != nil {
			return nil, "", err
		}
	}
	of, err = s.Storage.Store()
	return of, client, err
}

func (s *Blobs) put(c echo.Context, in *ofClient) error { return s.store(c, *in, blob.Ref{}) }

func (s *Blobs) putAt(c echo.Context, in *atAddress) error {
	return s.store(c, in.ofClient, in.Address.Ref)
}

// store stores the body of a request: 201, or 200 if the blob was there. A repeated PUT repairs a damaged blob.
func (s *Blobs) store(c echo.Context, in ofClient, want blob.Ref) error {
	info, client, err := s.storeBlob(c, in, want)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, blobLocation(client, info.Address))
	return web.AnswerDocument(c, createdUnless(info.Existed), documentOfBlob(&info))
}

// blobLocation returns the path of a blob that a request has stored.
func blobLocation(client string, a blob.Address) string {
	path := "/blobs/" + a.String()
	if client != "" {
		path += "?client=" + url.QueryEscape(client)
	}
	return path
}

// putCastaway answers as CAStaway does, with the hex digits of the address as text.
func (s *Blobs) putCastaway(c echo.Context, in *ofClient) error {
	info, _, err := s.storeBlob(c, *in, blob.Ref{})
	if err != nil {
		return err
	}
	return web.Answer(c, createdUnless(info.Existed), web.MIMEText+"; charset=utf-8", hex.AppendEncode(nil, info.Address[:]))
}

func createdUnless(existed bool) int {
	if existed {
		return http.StatusOK
	}
	return http.StatusCreated
}

// storeBlob stores the body of a request.
func (s *Blobs) storeBlob(c echo.Context, in ofClient, want blob.Ref) (info blob.Info, client string, err error) {
	of, client, err := s.of(in)
	if err != nil {
		return info, "", err
	}
	body, err := web.StreamBody(c, s.Uploads)
	if err != nil {
		return info, "", err
	}
	defer body.Release()
	if info, err = of.Put(c.Request().Context(), client, body, want); err != nil {
		return info, "", body.Refused(err)
	}
	s.metrics.blobsPut.Inc()
	s.metrics.blobBytesPut.Add(float64(info.Size))
	return info, client, body.Stored()
}

type readBlob struct {
	atAddress
	IfNoneMatch string `header:"If-None-Match" read:"elsewhere" doc:"the ETag of an earlier answer; the answer is 304 if the document still has this ETag"`
	Range       string `header:"Range" read:"elsewhere" doc:"which bytes to send, as in bytes=0-99"`
}

// get answers with a blob, also as CAStaway does.
func (s *Blobs) get(c echo.Context, in *readBlob) error {
	of, client, err := s.of(in.ofClient)
	if err != nil {
		return err
	}
	return s.Answer(c, of, client, in.Address.Ref, &Representation{echo.MIMEOctetStream, "private, max-age=31536000, immutable"}) // an address always has the same content
}

// Representation is the form in which a blob is answered: its media type, and how long a cache may keep it at the URL.
type Representation struct{ MediaType, CacheControl string }

// Answer answers with a blob, or the range of it that the request names.
func (s *Blobs) Answer(c echo.Context, of *blob.Store, client string, ref blob.Ref, as *Representation) error {
	r := c.Request()
	address, err := of.Resolve(r.Context(), client, ref)
	if err != nil {
		return readRefused(err)
	}
	tag := `"` + address.String() + `"`
	if r.Method == http.MethodHead {
		info, err := of.Stat(r.Context(), client, address)
		if err != nil {
			return err
		}
		blobHeaders(c, &info, tag, as)
		c.Response().Header().Set(echo.HeaderContentLength, strconv.FormatInt(info.Size, 10))
		return c.NoContent(http.StatusOK)
	}
	held, err := web.Hold(c, s.Downloads, web.StreamBytes)
	defer held.Release()
	if err != nil {
		return err
	}
	b, err := of.Get(r.Context(), client, address)
	if err != nil {
		return s.Damage(err)
	}
	defer b.Close() // it was only read
	info := b.Info()
	ranged := r.Header.Get("Range") != ""
	same := !ranged && web.NamesTag(r.Header["If-None-Match"], tag)
	if ranged || !same && info.Size <= VerifiedFirst {
		if err := s.Damage(b.Verify()); err != nil {
			return err
		}
	}
	blobHeaders(c, &info, tag, as)
	switch {
	case ranged:
		return sendRange(c, b)
	case same:
		c.Response().WriteHeader(http.StatusNotModified)
		return nil
	}
	return s.Send(c, b)
}

// sendRange answers with the range that the request names.
func sendRange(c echo.Context, b *blob.Blob) error {
	r := c.Request().Clone(c.Request().Context())
	for _, name := range [...]string{"If-Match", "If-Unmodified-Since", "If-None-Match", "If-Modified-Since"} {
		r.Header.Del(name) // If-Range is enough for ranges
	}
	w := &rangeWriter{Response: c.Response()}
	http.ServeContent(w, r, "", b.Info().Changed, b)
	if w.refused {
		for _, name := range [...]string{"Cache-Control", "Etag", "Repr-Digest"} {
			c.Response().Header().Del(name)
		}
		return &web.Problem{Status: http.StatusRequestedRangeNotSatisfiable, Code: "bad_range", Field: "Range",
			Detail: fmt.Sprintf("the blob has %d bytes, and the range is none of them, or malformed", b.Info().Size)}
	}
	return nil
}

// rangeWriter withholds the refusal of net/http, which is not a problem document.
type rangeWriter struct {
	*echo.Response
	refused bool
}

func (w *rangeWriter) WriteHeader(status int) {
	if w.refused = status >= http.StatusBadRequest; !w.refused {
		w.Response.WriteHeader(status)
	}
}

func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.Response.Write(p)
}

func blobHeaders(c echo.Context, info *blob.Info, tag string, as *Representation) {
	h := c.Response().Header()
	h["Etag"] = []string{tag}
	h.Set("Cache-Control", as.CacheControl)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(info.Address[:])+":") // RFC 9530
	h[echo.HeaderContentType] = []string{as.MediaType}
	h["X-Content-Type-Options"] = web.Nosniff
}

// Send sends all bytes of a blob. If the blob is damaged, the client gets fewer bytes than the Content-Length, and
// the connection is closed.
func (s *Blobs) Send(c echo.Context, b *blob.Blob) error {
	w := c.Response()
	w.Header().Set(echo.HeaderContentLength, strconv.FormatInt(b.Info().Size, 10))
	w.WriteHeader(http.StatusOK)
	if _, err := b.WriteTo(w); err != nil {
		if c.Request().Context().Err() == nil {
			s.Log.Error().Err(s.Damage(err)).Str("blob", b.Info().Address.String()).Msg("a blob was not sent to its end")
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}

// readRefused returns the error of a read. If too many files are open, the client gets the same answer as for too many
// concurrent answers.
func readRefused(err error) error {
	if errors.Is(err, blob.ErrFiles) {
		return &web.Problem{Status: http.StatusServiceUnavailable, Code: web.CodeOverloaded, Detail: err.Error()}
	}
	return err
}

// Damage is readRefused, and counts the error if the blob is damaged.
func (s *Blobs) Damage(err error) error {
	if _, damaged := errors.AsType[*blob.DamagedError](err); damaged {
		s.metrics.blobsDamaged.Inc()
	}
	return readRefused(err)
}

type blobsQuery struct {
	ofClient
	Limit int     `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"how many blobs the page has at most; default: 100"`
	After *string `query:"after" pattern:"^sha256:[0-9a-f]{64}$" doc:"next of the page before"`
}

type blobsPage struct{ Body blobsDocument }

// list answers with a page of blobs in the order of their addresses.
func (s *Blobs) list(ctx context.Context, in *blobsQuery) (out blobsPage, err error) {
	of, client, err := s.of(in.ofClient)
	if err != nil {
		return out, err
	}
	after := (*blob.Address)(nil)
	if in.After != nil {
		ref, err := blob.Parse(*in.After)
		if err != nil || ref.SHA256 == nil {
			return out, &web.Problem{Status: http.StatusBadRequest, Code: web.CodeBadAddress, Field: "after", Detail: "after must be the address of a blob, as next has it"}
		}
		after = ref.SHA256
	}
	if err := operation.Hold(ctx, s.Documents, web.MaxRowsBytes); err != nil {
		return out, err
	}
	list, err := of.List(ctx, client, after, in.Limit+1)
	if err != nil {
		return out, err
	}
	out.Body.Bytes = of.UsedBy(client)
	if len(list) > in.Limit {
		list = list[:in.Limit]
		out.Body.Next = web.OrNull(list[in.Limit-1].Address.String())
	}
	for i := range list {
		out.Body.Blobs = append(out.Body.Blobs, documentOfBlob(&list[i]))
	}
	return out, nil
}

// blobsDocument is a page of blobs. If more follow, next is the last address of the page.
type blobsDocument struct {
	Blobs []blobDocument `json:"blobs" maxItems:"1000"`
	Bytes int64          `json:"bytes" minimum:"0" doc:"bytes of all blobs"`
	Next  *string        `json:"next" doc:"after of the next page"`
}

type collected struct {
	Body struct {
		Blobs int   `json:"blobs" minimum:"0"`
		Bytes int64 `json:"bytes" minimum:"0"`
	}
}

// collect removes old blobs that nothing refers to.
func (s *Blobs) collect(ctx context.Context, _ *struct{}) (out collected, err error) {
	if s.Storage == nil {
		return out, NoBlobs()
	}
	swept, err := s.Storage.Collector.Collect(ctx)
	out.Body.Blobs, out.Body.Bytes = swept.Blobs, swept.Bytes
	return out, err
}

// SpellAddress writes the address of a blob in the path in its canonical form. The base64 of other forms has slashes,
// which would divide the path.
func SpellAddress(u *url.URL) {
	if !strings.HasPrefix(u.Path, "/blob") {
		return
	}
	for _, prefix := range [...]string{"/blobs/", "/blob/"} {
		text, found := strings.CutPrefix(u.EscapedPath(), prefix)
		if !found || !strings.HasPrefix(text, "sha256-") {
			continue
		}
		if text, err := url.PathUnescape(text); err == nil {
			if ref, err := blob.Parse(text); err == nil {
				u.Path, u.RawPath = prefix+ref.String(), ""
			}
		}
	}
}
