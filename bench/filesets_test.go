package bench

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/internal/testkit"
)

const (
	benchFiles     = 10_000
	benchFileBytes = 1024
)

// benchArchive returns an archive of small files whose contents are unique to it.
func benchArchive(b *testing.B) []byte {
	b.Helper()
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	content := make([]byte, benchFileBytes)
	rand.Read(content)
	for i := range benchFiles {
		copy(content, fmt.Sprintf("%08d", i))
		testkit.NoError(b, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("d%03d/f%05d", i/100, i), Size: benchFileBytes, Mode: 0o644}))
		testkit.Must(w.Write(content))(b)
	}
	testkit.NoError(b, w.Close())
	return text.Bytes()
}

// BenchmarkFileset stores and reads filesets of 10,000 files of 1 KiB, through HTTP and with a real server. A fileset is
// durable when its PUT is answered.
func BenchmarkFileset(b *testing.B) {
	s := serve(b)
	c := client.New(s.URL(), client.Options{})
	perSecond := func(b *testing.B) {
		b.ReportMetric(float64(b.N)*benchFiles/b.Elapsed().Seconds(), "files/s")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("PutTar", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			text := benchArchive(b)
			b.StartTimer()
			testkit.Must(c.Filesets("").Put(b.Context(), "bench", bytes.NewReader(text)))(b)
		}
		perSecond(b)
	})
	text := benchArchive(b)
	testkit.Must(c.Filesets("").Put(b.Context(), "bench", bytes.NewReader(text)))(b)
	b.Run("PutTarAgain", func(b *testing.B) {
		for b.Loop() {
			if f, err := c.Filesets("").Put(b.Context(), "bench", bytes.NewReader(text)); err != nil || !f.Existed {
				b.Fatal(f, err)
			}
		}
		perSecond(b)
	})
	b.Run("GetTar", func(b *testing.B) {
		for b.Loop() {
			r := testkit.Must(c.Filesets("").Tar(b.Context(), "bench", files.FilesetQuery{}))(b)
			testkit.Must(io.Copy(io.Discard, r))(b)
			r.Close()
		}
		perSecond(b)
	})
	b.Run("Pull", func(b *testing.B) {
		dir := b.TempDir()
		n := 0
		for b.Loop() {
			n++
			if _, moved, err := c.Filesets("").Pull(b.Context(), "bench", filepath.Join(dir, fmt.Sprint(n)), files.FilesetQuery{}); err != nil || moved.Files != benchFiles {
				b.Fatal(moved, err)
			}
		}
		perSecond(b)
	})
	b.Run("Push", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			b.StopTimer()
			r := tar.NewReader(bytes.NewReader(benchArchive(b)))
			for h, err := r.Next(); err != io.EOF; h, err = r.Next() {
				testkit.NoError(b, err)
				content, err := io.ReadAll(r)
				if err == nil {
					err = os.MkdirAll(filepath.Join(dir, filepath.Dir(h.Name)), 0o755)
				}
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, h.Name), content, 0o644)
				}
				testkit.NoError(b, err)
			}
			b.StartTimer()
			if _, moved, err := c.Filesets("").Push(b.Context(), "bench", dir, nil); err != nil || moved.Files != benchFiles {
				b.Fatal(moved, err)
			}
		}
		perSecond(b)
	})
	b.Run("PushUnchanged", func(b *testing.B) {
		dir := b.TempDir()
		testkit.Must2(c.Filesets("").Pull(b.Context(), "bench", dir, files.FilesetQuery{}))(b)
		for b.Loop() {
			if _, moved, err := c.Filesets("").Push(b.Context(), "bench", dir, nil); err != nil || moved.Files != 0 {
				b.Fatal(moved, err)
			}
		}
		perSecond(b)
	})
}
