package web

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"
)

const (
	// Answers shorter than MinCompressedBytes fit into one network packet without compression.
	MinCompressedBytes = 1 << 10
	// A compressor has about one megabyte of state, and keeps it until the client has read the answer. If the lane for
	// compressors is used up, answers are not compressed.
	compressorBytes = 1 << 20
)

var zip = func() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(MinCompressedBytes), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false))
	if err != nil {
		panic("options of gzhttp: " + err.Error())
	}
	return wrap
}()

// Compressed compresses an answer with gzip if the client accepts gzip and the answer is long enough. Only GET routes
// use it: Go's HTTP client accepts gzip by default, and compressing claims would slow down runners.
func (s *Server) Compressed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		if c.Request().Header.Get(echo.HeaderAcceptEncoding) == "" {
			return next(c)
		}
		held := ShareOf(c, s.Compressors)
		if !held.Grow(c.Request().Context(), compressorBytes, 0) {
			return next(c)
		}
		defer held.Release()
		w := c.Response()
		sent := &sentBytes{ResponseWriter: w.Writer}
		defer func() {
			w.Writer = sent.ResponseWriter // a refusal is short and is not compressed
			w.Size = sent.n
		}()
		zip(http.HandlerFunc(func(z http.ResponseWriter, _ *http.Request) {
			w.Writer = z
			err = next(c)
		})).ServeHTTP(sent, c.Request())
		return err
	}
}

// sentBytes counts the bytes that are sent after compression, for the access log.
type sentBytes struct {
	http.ResponseWriter
	n int64
}

func (s *sentBytes) Write(b []byte) (int, error) {
	n, err := s.ResponseWriter.Write(b)
	s.n += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (s *sentBytes) Unwrap() http.ResponseWriter { return s.ResponseWriter }
