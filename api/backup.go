package api

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest/backup"
	"github.com/daybookq/daybook/job"
)

// backupBytes is the memory that the server needs to send a backup: a journal segment, which is usually 4 MiB long, and
// buffers. Only one backup is sent at a time.
const backupBytes = 8 << 20

// defaultBackupPatience is the longest time in which a client may read 256 KiB of a backup. The client writes the bytes
// to a disk, which may be busy for some seconds.
const defaultBackupPatience = time.Minute

// backups are copies of everything that the server keeps.
type backups struct {
	engine backend.Engine
	*limits
	blobs    *files.Blobs
	version  string
	metrics  *backupMetrics
	patience time.Duration   // the longest time in which a client may read 256 KiB
	draining context.Context // done when the shutdown begins
	log      zerolog.Logger
}

func (s *backups) routes(r operation.Rules) []route {
	return []route{
		written(r, http.MethodGet, "/backup", operation.About{
			ID: "backup", Tag: "Watching", Summary: "Read a backup of the running server",
			Text: "Everything that the server keeps but blobs, as of one moment: a tar with `journal/…`, `store/…`, and `backup.json`\n" +
				"as its last file, which has the digests of the others. An answer without `backup.json` is not complete. The backup\n" +
				"includes every change that was acknowledged before the request. One backup is sent at a time. `daybook backup` and\n" +
				"`daybook restore` write, verify and restore these files.\n",
			Replies: []operation.Reply{{Status: http.StatusOK, Text: "the backup", Headers: []string{"Daybook-Seq"},
				Content: map[string]openapi.Shape{backup.MediaType: openapi.Plain(openapi.Of("string"))}}},
			Refusals: []int{409, 503, 507},
		}, s.send),
		cold(r, http.MethodGet, "/backup/clients", operation.About{
			ID: "backupClients", Tag: "Watching", Summary: "List the clients that have blobs of their own",
			Text:     "A backup copies the blobs of each of them, and those that all clients share.",
			Answers:  answers{200: "the names of the clients, in order; a client whose last blob was removed may be among them"},
			Refusals: []int{501, 503},
		}, s.clients),
	}
}

// send answers with a stream of package backup. HEAD takes no snapshot.
func (s *backups) send(c echo.Context, _ *nothing) error {
	h := c.Response().Header()
	if c.Request().Method == http.MethodHead {
		h[echo.HeaderContentType] = []string{backup.MediaType}
		return c.NoContent(http.StatusOK)
	}
	held, err := web.Hold(c, s.downloads, backupBytes)
	defer held.Release()
	if err != nil {
		return err
	}
	snapshot, err := s.engine.Snapshot()
	if err != nil {
		s.metrics.backups.WithLabelValues(resultRefused).Inc()
		return err
	}
	defer snapshot.Close() // also if the answer is cut by a panic
	ctx, cancel := context.WithCancelCause(c.Request().Context())
	defer cancel(nil)
	defer context.AfterFunc(s.draining, func() { cancel(web.ErrShuttingDown) })()
	h[echo.HeaderContentType] = []string{backup.MediaType}
	h["X-Content-Type-Options"] = web.Nosniff
	h["Cache-Control"] = []string{"no-store"}
	web.SetSeq(c, snapshot.Last)
	if conn := web.ConnectionOf(c.Request()); conn != nil {
		conn.Patience = s.patience
		defer func() { conn.Patience = 0 }()
	}
	c.Response().WriteHeader(http.StatusOK)
	began := time.Now()
	m, err := backup.Write(ctx, c.Response(), snapshot, s.version)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err = errors.Join(err, snapshot.Close()); err != nil {
		s.metrics.backups.WithLabelValues(resultFailed).Inc()
		s.log.Error().Err(err).Dur("took_ms", time.Since(began)).Msg("a backup was not sent to its end")
		panic(http.ErrAbortHandler) // otherwise the client would take the backup for complete
	}
	s.metrics.backups.WithLabelValues(resultOK).Inc()
	s.metrics.backupAt.Store(time.Now().UnixMilli())
	s.log.Info().Bool("audit", true).Str("key", job.KeyOf(ctx).By().Name).Uint64("cursor", m.Cursor).Uint64("last", m.Last).Int("files", len(m.Files)).Int64("bytes", m.Bytes()).
		Dur("took_ms", time.Since(began)).Msg("a backup was sent")
	return nil
}

type blobClients struct {
	Body struct {
		Clients []string `json:"clients" schema:"Name"`
	}
}

// clients answers with the clients that have blobs. A backup copies each client's blobs.
func (s *backups) clients(ctx context.Context, _ *nothing) (out blobClients, err error) {
	if s.blobs.Storage == nil {
		return out, files.NoBlobs()
	}
	if err := operation.Hold(ctx, s.documents, web.MaxRowsBytes); err != nil {
		return out, err
	}
	of, err := s.blobs.Storage.Store()
	if err == nil {
		out.Body.Clients = of.Clients()
	}
	return out, err
}

// The results of backups, as labels.
const (
	resultOK      = "ok"
	resultFailed  = "failed"
	resultRefused = "refused"
)

// backupMetrics are the metrics of backups.
type backupMetrics struct {
	backups  *prometheus.CounterVec
	backupAt *atomic.Int64 // unix ms; 0: none since the start
}

func newBackupMetrics(registry *prometheus.Registry) *backupMetrics {
	m := &backupMetrics{backupAt: new(atomic.Int64), backups: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "daybook_backups_total", Help: "Backups that were requested: ok if the server has sent all of it, failed if the stream has ended early, refused if there was no stream.",
	}, []string{"result"})}
	for _, result := range []string{resultOK, resultFailed, resultRefused} {
		m.backups.WithLabelValues(result)
	}
	registry.MustRegister(m.backups, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "daybook_backup_last_success_timestamp_seconds", Help: "Unix time at which the server had last sent all of a backup; 0 if it has not since its start.",
	}, func() float64 { return float64(m.backupAt.Load()) / 1000 }))
	return m
}
