package files

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/client/fileset"
)

// filesetMetrics are the metrics of filesets, by the form in which they are stored or read: archive or manifest.
type filesetMetrics struct {
	puts, filesPut, bytesPut, gets *prometheus.CounterVec
}

// The forms of filesets in requests and answers. A manifest has no content, so its counted bytes are the bytes that the
// client did not have to send again, except for blobs that it uploaded for this manifest.
const (
	formArchive  = "archive"
	formManifest = "manifest"
)

func newFilesetMetrics(registry *prometheus.Registry) filesetMetrics {
	of := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	m := filesetMetrics{
		puts:     of("daybook_fileset_puts_total", "Filesets stored, by form, and by result: a new version, or the same files as the newest one.", "form", "result"),
		filesPut: of("daybook_fileset_put_files_total", "Files of filesets stored, by form.", "form"),
		bytesPut: of("daybook_fileset_put_bytes_total", "Bytes of files of filesets stored, by form.", "form"),
		gets:     of("daybook_fileset_gets_total", "Filesets sent to clients, by form.", "form"),
	}
	for _, form := range []string{formArchive, formManifest} { // so that all exist from the start
		for _, result := range []string{"new", "same"} {
			m.puts.WithLabelValues(form, result)
		}
		m.filesPut.WithLabelValues(form)
		m.bytesPut.WithLabelValues(form)
		m.gets.WithLabelValues(form)
	}
	return m
}

// put counts a fileset that was stored.
func (m *filesetMetrics) put(form string, same bool, stored *fileset.Manifest) {
	result := "new"
	if same {
		result = "same"
	}
	m.puts.WithLabelValues(form, result).Inc()
	m.filesPut.WithLabelValues(form).Add(float64(len(stored.Files)))
	m.bytesPut.WithLabelValues(form).Add(float64(stored.Bytes()))
}
