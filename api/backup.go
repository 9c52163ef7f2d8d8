package api

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/backup"
)

// backupBytes is the memory that the server needs to send a backup: a journal segment, which is usually 4 MiB long, and
// buffers. Only one backup is sent at a time.
const backupBytes = 8 << 20

// defaultBackupPatience is the longest time in which a client may read 256 KiB of a backup. The client writes the bytes
// to a disk, which may be busy for some seconds.
const defaultBackupPatience = time.Minute

// snapshotter takes snapshots of the state and of the journal.
type snapshotter interface {
	Snapshot() (*ingest.Snapshot, error)
}

// backup answers GET /backup with a stream of package backup. HEAD takes no snapshot.
func (s *Server) backup(c echo.Context) error {
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
	ctx, cancel := context.WithCancelCause(c.Request().Context())
	defer cancel(nil)
	defer context.AfterFunc(s.draining, func() { cancel(web.ErrShuttingDown) })()
	h[echo.HeaderContentType] = []string{backup.MediaType}
	h["X-Content-Type-Options"] = web.Nosniff
	h["Cache-Control"] = []string{"no-store"}
	web.SetSeq(c, snapshot.Last)
	if conn := web.ConnectionOf(c.Request()); conn != nil {
		conn.Patience = s.backupPatience
		defer func() { conn.Patience = 0 }()
	}
	c.Response().WriteHeader(http.StatusOK)
	began := time.Now()
	m, err := backup.Write(ctx, c.Response(), snapshot, s.build.Version)
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
	s.log.Info().Uint64("cursor", m.Cursor).Uint64("last", m.Last).Int("files", len(m.Files)).Int64("bytes", m.Bytes()).
		Dur("took_ms", time.Since(began)).Msg("a backup was sent")
	return nil
}

// backupClients answers GET /backup/clients with the clients that have blobs. A backup copies each client's blobs.
func (s *Server) backupClients(c echo.Context) error {
	if s.blobs.Storage == nil {
		return files.NoBlobs()
	}
	held, err := web.Hold(c, s.documents, web.MaxRowsBytes)
	defer held.Release()
	if err != nil {
		return err
	}
	of, err := s.blobs.Storage.Store()
	if err != nil {
		return err
	}
	names := of.Clients()
	if names == nil {
		names = []string{}
	}
	return web.AnswerDocument(c, http.StatusOK, struct {
		Clients []string `json:"clients"`
	}{names})
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

func newBackupMetrics(registry *prometheus.Registry) backupMetrics {
	m := backupMetrics{backupAt: new(atomic.Int64), backups: prometheus.NewCounterVec(prometheus.CounterOpts{
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
