package opsqueue

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"runtime/debug"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue/wire"
)

const (
	// maxBodyBytes bounds a body. The original's framework has the same limit.
	maxBodyBytes = 2 << 20
	// maxBodies bounds the bodies in memory at a time.
	maxBodies = 32

	mimeJSON = "application/json"
	mimeText = "text/plain; charset=utf-8"
)

// handler returns the handler of all routes.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range []struct {
		method, path string
		roles        job.Roles
		serve        func(w http.ResponseWriter, r *http.Request) error
	}{
		{http.MethodPost, "/producer/submissions", producers, s.serveInsert},
		{http.MethodGet, "/producer/submissions/{id}", readers, s.serveStatus},
		{http.MethodPost, "/producer/submissions/cancel/{id}", producers, s.serveCancel},
		{http.MethodGet, "/producer/submissions/count", readers, s.serveCount(job.BatchInProgress)},
		{http.MethodGet, "/producer/submissions/count_completed", readers, s.serveCount(job.BatchCompleted)},
		{http.MethodGet, "/producer/submissions/lookup_id_by_prefix/{prefix}", readers, s.serveLookupPrefix},
		{http.MethodPost, "/producer/submissions/lookup_ids_by_strategic_metadata", readers, s.serveLookupMetadata},
		{http.MethodGet, "/producer/version", open, serveVersion},
		{http.MethodGet, "/consumer", workers, s.serveConsumer},
		{http.MethodGet, "/ping", open, s.servePing},
		{http.MethodGet, "/version", open, serveVersion},
		{http.MethodGet, "/metrics", watchers, s.serveMetrics},
		{http.MethodGet, "/intentionally-panic-for-tests", open, func(http.ResponseWriter, *http.Request) error { panic("intentional panic for tests") }},
	} {
		mux.Handle(r.path, s.metrics.route(r.method, r.path, s.guard(r.method, r.roles, r.serve)))
	}
	notFound := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	mux.HandleFunc("/", notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.EscapedPath(); path.Clean(p) != p { // mux would redirect to the clean path
			notFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// guard serves one method of a route if the listener's key has one of the roles, and answers errors and panics. It refuses requests with an Origin: no client of the
// protocol is a browser, so a page of another site has made a browser send the request.
func (s *Server) guard(method string, roles job.Roles, serve func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("a request panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				answer(w, http.StatusInternalServerError, mimeJSON, wire.EncodeJSON(wire.NewPanic(fmt.Sprint(p))))
			}
		}()
		switch {
		case r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead):
			w.Header().Set("Allow", method)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case r.Header.Get("Origin") != "":
			answer(w, http.StatusForbidden, mimeText, []byte("a browser may not use this protocol"))
			return
		}
		if err := s.permits(roles); err != nil {
			s.refuse(w, r, forbidden(err))
			return
		}
		if err := serve(w, r); err != nil {
			s.refuse(w, r, err)
		}
	})
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var refusal *rejection
	var insert *refusedInsert
	switch {
	case errors.As(err, &refusal):
		answer(w, refusal.status, mimeText, []byte(refusal.reason))
	case errors.As(err, &insert):
		answer(w, http.StatusUnprocessableEntity, mimeText, []byte(insert.reason))
	default:
		s.log.Warn("a request failed", "path", r.URL.Path, "error", err)
		answer(w, http.StatusInternalServerError, mimeJSON, wire.EncodeJSON(err.Error()))
	}
}

// rejection is an error that the original's framework answers as text.
type rejection struct {
	status int
	reason string
}

func (e *rejection) Error() string { return e.reason }

func answer(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the client has gone
}

func answerJSON(w http.ResponseWriter, status int, v any) error {
	answer(w, status, mimeJSON, wire.EncodeJSON(v))
	return nil
}

// readJSON decodes a body whose media type is JSON.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != mimeJSON && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		return &rejection{http.StatusUnsupportedMediaType, "Expected request with `Content-Type: application/json`"}
	}
	select {
	case s.bodies <- struct{}{}:
		defer func() { <-s.bodies }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		return &rejection{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBodyBytes)}
	} else if err != nil {
		return &rejection{http.StatusBadRequest, "the body cannot be read"}
	}
	switch err := wire.DecodeJSON(body, into); {
	case errors.Is(err, wire.ErrMalformed):
		return &rejection{http.StatusBadRequest, err.Error()}
	case errors.Is(err, wire.ErrShape):
		return &rejection{http.StatusUnprocessableEntity, err.Error()}
	default:
		return err
	}
}

func pathID(r *http.Request) (wire.SubmissionID, error) {
	id, err := wire.ParseSubmissionID(r.PathValue("id"))
	if err != nil {
		return 0, &rejection{http.StatusBadRequest, err.Error()}
	}
	return id, nil
}

func (s *Server) serveInsert(w http.ResponseWriter, r *http.Request) error {
	var request wire.InsertSubmission
	if err := s.readJSON(w, r, &request); err != nil {
		return err
	}
	id, err := s.insert(r.Context(), &request, r.Header)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, id)
}

func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	status, err := s.status(r.Context(), id)
	switch {
	case errors.Is(err, job.BatchNotFound):
		return answerJSON(w, http.StatusOK, nil)
	case err != nil:
		return err
	}
	return answerJSON(w, http.StatusOK, status)
}

func (s *Server) serveCancel(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	ended, err := s.cancel(r.Context(), id)
	switch {
	case errors.Is(err, job.BatchNotFound):
		return answerJSON(w, http.StatusNotFound, id)
	case err != nil:
		return err
	case ended != nil:
		return answerJSON(w, http.StatusConflict, wire.SubmissionNotCancellable{Completed: ended.Completed, Failed: ended.Failed, Cancelled: ended.Cancelled})
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) serveCount(status job.BatchStatus) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.engine.CatchUp(r.Context(), 0); err != nil {
			return err
		}
		counts, err := s.state.BatchCounts(Client, Type)
		if err != nil {
			return err
		}
		return answerJSON(w, http.StatusOK, counts[status])
	}
}

func (s *Server) serveLookupPrefix(w http.ResponseWriter, r *http.Request) error {
	id, ok, err := s.lookupPrefix(r.Context(), r.PathValue("prefix"))
	switch {
	case err != nil:
		return err
	case !ok:
		return answerJSON(w, http.StatusOK, nil)
	}
	return answerJSON(w, http.StatusOK, id)
}

func (s *Server) serveLookupMetadata(w http.ResponseWriter, r *http.Request) error {
	var pairs wire.Metadata
	if err := s.readJSON(w, r, &pairs); err != nil {
		return err
	}
	ids, err := s.lookupMetadata(r.Context(), pairs)
	switch {
	case errors.Is(err, errTooMany):
		return answerJSON(w, http.StatusBadRequest, s.config.MaxSubmissionsReturned)
	case err != nil:
		return err
	}
	return answerJSON(w, http.StatusOK, ids)
}

func serveVersion(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, mimeText, []byte("v"+Version))
	return nil
}

func (s *Server) servePing(w http.ResponseWriter, _ *http.Request) error {
	if s.isClosing() || s.engine.Ready() != nil {
		answer(w, http.StatusServiceUnavailable, mimeText, []byte("unhealthy"))
		return nil
	}
	answer(w, http.StatusOK, mimeText, []byte("pong"))
	return nil
}
