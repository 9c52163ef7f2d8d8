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
	"golang.org/x/sync/errgroup"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/job"
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
	Optional    *web.BodyRule             // of requests without fields
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

// blobDocument describes a blob.
type blobDocument struct {
	Address   string `json:"address"`
	SHA1      string `json:"sha1,omitzero"` // only after an upload
	Size      int64  `json:"size"`
	ChangedAt int64  `json:"changed_at"`
}

func documentOfBlob(i *blob.Info) blobDocument {
	d := blobDocument{Address: i.Address.String(), Size: i.Size, ChangedAt: i.Changed.UnixMilli()}
	if i.SHA1 != (blob.SHA1{}) {
		d.SHA1 = i.SHA1.String()
	}
	return d
}

// of returns the store, and the client that the query names.
func (s *Blobs) of(c echo.Context) (of *blob.Store, client string, err error) {
	if s.Storage == nil {
		return nil, "", NoBlobs()
	}
	for _, p := range web.Parameters(c) {
		if p.Key != "client" {
			continue
		}
		client = p.Value
		if err := s.CheckClient(client); err != nil {
			return nil, "", err
		}
		if err := job.CheckName(p.Key, client); err != nil {
			return nil, "", web.BadField(p.Key, err)
		}
	}
	of, err = s.Storage.Store()
	return of, client, err
}

// pathBlob returns the store, the client that the query names, and the address in the path.
func (s *Blobs) pathBlob(c echo.Context) (of *blob.Store, client string, ref blob.Ref, err error) {
	if ref, err = blob.Parse(c.Param("address")); err != nil {
		return nil, "", ref, err
	}
	of, client, err = s.of(c)
	return of, client, ref, err
}

// Put answers PUT /blobs and PUT /blobs/{address}: 201, or 200 if the blob was there. A repeated PUT repairs a
// damaged blob.
func (s *Blobs) Put(c echo.Context) error {
	var want blob.Ref
	of, client, err := s.of(c)
	if c.Param("address") != "" {
		of, client, want, err = s.pathBlob(c)
	}
	if err != nil {
		return err
	}
	info, err := s.storeBlob(c, of, client, want)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, blobLocation(c, info.Address))
	return web.AnswerDocument(c, createdUnless(info.Existed), documentOfBlob(&info))
}

// blobLocation returns the path of a blob that a request has stored.
func blobLocation(c echo.Context, a blob.Address) string {
	path := "/blobs/" + a.String()
	if client := c.QueryParam("client"); client != "" {
		path += "?client=" + url.QueryEscape(client)
	}
	return path
}

// PutCastaway answers PUT /blob as CAStaway does, with the hex digits of the address as text.
func (s *Blobs) PutCastaway(c echo.Context) error {
	of, client, err := s.of(c)
	if err != nil {
		return err
	}
	info, err := s.storeBlob(c, of, client, blob.Ref{})
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
func (s *Blobs) storeBlob(c echo.Context, of *blob.Store, client string, want blob.Ref) (blob.Info, error) {
	body, err := web.StreamBody(c, s.Uploads)
	if err != nil {
		return blob.Info{}, err
	}
	defer body.Release()
	info, err := of.Put(c.Request().Context(), client, body, want)
	if err != nil {
		return info, body.Refused(err)
	}
	s.metrics.blobsPut.Inc()
	s.metrics.blobBytesPut.Add(float64(info.Size))
	return info, body.Stored()
}

// Get answers GET and HEAD /blobs/{address}, and CAStaway's /blob/{address}.
func (s *Blobs) Get(c echo.Context) error {
	of, client, ref, err := s.pathBlob(c)
	if err != nil {
		return err
	}
	return s.Answer(c, of, client, ref, &Representation{echo.MIMEOctetStream, "private, max-age=31536000, immutable"}) // an address always has the same content
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

// Missing answers POST /blobs/missing with the blobs that are not stored. The server keeps the stored ones for a
// day from now on, so a producer uploads the missing ones and then creates its jobs.
func (s *Blobs) Missing(c echo.Context) error {
	var r struct {
		Addresses []string `json:"addresses"`
	}
	of, client, err := s.of(c)
	if err != nil {
		return err
	}
	body, err := web.ReadObject(c, &s.addresses, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	if len(r.Addresses) == 0 || len(r.Addresses) > MaxAddresses {
		return web.BadRequest("addresses", fmt.Sprintf("addresses must have 1 to %d addresses, not %d", MaxAddresses, len(r.Addresses)))
	}
	if err := body.Reserve(c.Request().Context(), 2*int64(len(body.Bytes))); err != nil { // for the addresses, and the answer
		return err
	}
	refs := make([]blob.Ref, len(r.Addresses))
	for i, text := range r.Addresses {
		if refs[i], err = blob.Parse(text); err != nil {
			return &web.Problem{Status: http.StatusBadRequest, Code: web.CodeBadAddress, Field: fmt.Sprintf("addresses[%d]", i), Detail: err.Error()}
		}
	}
	ctx := c.Request().Context()
	addresses, err := resolveAll(ctx, refs, func(ctx context.Context, ref blob.Ref) (blob.Address, error) { return of.Resolve(ctx, client, ref) })
	if err != nil {
		return readRefused(err)
	}
	var all []blob.Address
	for _, a := range addresses {
		if a != nil {
			all = append(all, *a)
		}
	}
	missing, err := of.Missing(ctx, client, all)
	if err != nil {
		return err
	}
	gone := map[blob.Address]bool{}
	for _, a := range missing {
		gone[a] = true
	}
	list := []string{}
	for i, text := range r.Addresses { // in the forms that the client sent
		if a := addresses[i]; a == nil || gone[*a] {
			list = append(list, text)
		}
	}
	return web.AnswerDocument(c, http.StatusOK, struct {
		Missing []string `json:"missing"`
	}{list})
}

// resolveAll resolves digests, resolveAtOnce at a time. An address is nil if no stored blob has this SHA-1.
func resolveAll(ctx context.Context, refs []blob.Ref, resolve func(context.Context, blob.Ref) (blob.Address, error)) ([]*blob.Address, error) {
	all := make([]*blob.Address, len(refs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(resolveAtOnce)
	for i, ref := range refs {
		if ref.SHA256 != nil {
			all[i] = ref.SHA256
			continue
		}
		group.Go(func() error {
			a, err := resolve(ctx, ref)
			if errors.Is(err, blob.ErrNotFound) {
				return nil
			}
			all[i] = &a
			return err
		})
	}
	return all, group.Wait()
}

// List answers GET /blobs with a page of blobs in the order of their addresses.
func (s *Blobs) List(c echo.Context) error {
	of, client, err := s.of(c)
	if err != nil {
		return err
	}
	limit, after := web.DefaultPage, (*blob.Address)(nil)
	for _, p := range web.Parameters(c) {
		switch p.Key {
		case "limit":
			if limit, err = web.PageLimit(p); err != nil {
				return err
			}
		case "after":
			ref, err := blob.Parse(p.Value)
			if err != nil || ref.SHA256 == nil {
				return &web.Problem{Status: http.StatusBadRequest, Code: web.CodeBadAddress, Field: p.Key, Detail: "after must be the address of a blob, as next has it"}
			}
			after = ref.SHA256
		}
	}
	held, err := web.Hold(c, s.Documents, web.MaxRowsBytes)
	defer held.Release()
	if err != nil {
		return err
	}
	list, err := of.List(c.Request().Context(), client, after, limit+1)
	if err != nil {
		return err
	}
	page := blobsDocument{Blobs: []blobDocument{}, Bytes: of.UsedBy(client)}
	if len(list) > limit {
		list = list[:limit]
		page.Next = web.OrNull(list[limit-1].Address.String())
	}
	for i := range list {
		page.Blobs = append(page.Blobs, documentOfBlob(&list[i]))
	}
	return web.AnswerDocument(c, http.StatusOK, page)
}

// blobsDocument is a page of blobs. If more follow, next is the last address of the page. Bytes counts all blobs.
type blobsDocument struct {
	Blobs []blobDocument `json:"blobs"`
	Bytes int64          `json:"bytes"`
	Next  *string        `json:"next"`
}

// Collect answers POST /blobs/collect. It removes old blobs that nothing refers to.
func (s *Blobs) Collect(c echo.Context) error {
	if s.Storage == nil {
		return NoBlobs()
	}
	if err := web.NoBody(c, s.Optional); err != nil {
		return err
	}
	swept, err := s.Storage.Collector.Collect(c.Request().Context())
	if err != nil {
		return err
	}
	return web.AnswerDocument(c, http.StatusOK, struct {
		Blobs int   `json:"blobs"`
		Bytes int64 `json:"bytes"`
	}{swept.Blobs, swept.Bytes})
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
