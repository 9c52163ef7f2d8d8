package api

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/ingest/backup"
	"github.com/daybookq/daybook/internal/testkit"
)

// randomJobs creates jobs whose payloads have n MiB together, too much for the buffers of a connection.
func (r *rig) randomJobs(n int) {
	r.Helper()
	payload := make([]byte, 1<<20)
	for range n {
		for i := range payload {
			payload[i] = byte('a' + rand.IntN(26))
		}
		r.add("/add", string(payload)+"\n").wantStatus(http.StatusCreated)
	}
}

// requested sends a request for a backup and reads only the head of the answer.
func (r *rig) requested() (conn net.Conn, head string) {
	r.Helper()
	conn = testkit.Must(net.Dial("tcp", strings.TrimPrefix(r.url, "http://")))(r)
	r.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	testkit.Must(io.WriteString(conn, "GET /backup HTTP/1.1\r\nHost: localhost\r\n\r\n"))(r)
	b := make([]byte, 1)
	for !strings.HasSuffix(head, "\r\n\r\n") {
		_, err := conn.Read(b)
		testkit.NoError(r, err, head)
		head += string(b)
	}
	return conn, head
}

func (r *rig) metric(line string) bool {
	return strings.Contains(r.get("/metrics").body, "\n"+line+"\n")
}

// noBackup waits until no backup is in progress, and checks that the checkpoint was removed.
func (r *rig) noBackup() {
	r.Helper()
	for r.get("/backup").status == http.StatusConflict {
		testkit.MustHold(r, r.Context().Err() == nil, "the backup does not end")
	}
	testkit.Fails(os.Stat(filepath.Join(r.dir, "backup-checkpoint")))(r, os.ErrNotExist)
}

// TestBackup: the answer is a backup with every acknowledged job. HEAD makes no backup.
func TestBackup(t *testing.T) {
	r := start(t)
	r.add("/add?jobtype=square", "1\n2\n3\n").wantStatus(http.StatusCreated)
	r.do(http.MethodHead, "/backup", nil).wantStatus(http.StatusOK)
	testkit.Holds(t, r.metric(`daybook_backups_total{result="ok"} 0`) &&
		r.metric("daybook_backup_last_success_timestamp_seconds 0"), "HEAD has made a backup")
	began := time.Now()
	a := r.get("/backup", "Accept-Encoding", "gzip")
	a.wantStatus(http.StatusOK)
	testkit.Equal(t, a.header.Get("Content-Encoding"), "", a.header)
	testkit.Equal(t, a.header.Get("Content-Type"), backup.MediaType, a.header)
	dir := t.TempDir()
	m, err := backup.Receive(dir, strings.NewReader(a.body), "")
	if err == nil {
		err = backup.Seal(dir, nil)
	}
	testkit.NoError(t, err)
	v := testkit.Must(backup.Verify(t.Context(), dir, true))(t)
	testkit.Holds(t, v.Jobs == 3 && fmt.Sprint(m.Last) == a.header.Get("Daybook-Seq") && m.TakenAt >= began.UnixMilli(), v)
	testkit.Holds(t, r.metric(`daybook_backups_total{result="ok"} 1`) &&
		!r.metric("daybook_backup_last_success_timestamp_seconds 0"), "the backup was not counted")

	testkit.Equal(t, fmt.Sprint(r.get("/backup/clients").object(http.StatusOK)["clients"]), "[]")
	r.put("/blobs?client=acme", "x").wantStatus(http.StatusCreated)
	r.put("/blobs", "x").wantStatus(http.StatusCreated)
	testkit.Equal(t, fmt.Sprint(r.get("/backup/clients").object(http.StatusOK)["clients"]), "[acme]")
}

// TestOneBackupAtATime: the server refuses a second backup while it sends the first one, and serves other requests.
// When the client hangs up, the backup ends.
func TestOneBackupAtATime(t *testing.T) {
	r := start(t)
	r.randomJobs(30)
	conn, head := r.requested()
	testkit.MustHold(t, strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n"), head)
	r.get("/backup").refused(http.StatusConflict, "backup_running")
	r.add("/add", "x\n").wantStatus(http.StatusCreated)
	r.post("/jobs/claim", `{"runner_id":"r"}`).wantStatus(http.StatusOK)
	testkit.NoError(t, conn.Close())
	r.noBackup()
	if !r.metric(`daybook_backups_total{result="failed"} 1`) || !r.metric(`daybook_backups_total{result="ok"} 1`) || r.metric(`daybook_backups_total{result="refused"} 0`) {
		t.Error(r.get("/metrics").body)
	}
}

// TestSlowReaderOfABackup: a client that stops reading does not keep the files of the backup forever. Its answer is not
// complete.
func TestSlowReaderOfABackup(t *testing.T) {
	r := start(t)
	r.server.backups.patience = 100 * time.Millisecond
	r.randomJobs(30)
	conn, _ := r.requested()
	for !r.metric(`daybook_backups_total{result="failed"} 1`) {
		testkit.MustHold(t, t.Context().Err() == nil, "the backup does not end")
	}
	testkit.Fails(os.Stat(filepath.Join(r.dir, "backup-checkpoint")))(t, os.ErrNotExist)
	rest, err := io.ReadAll(conn) // from the buffers
	testkit.Holds(t, !bytes.Contains(rest, []byte(backup.ManifestName)) &&
		!bytes.HasSuffix(rest, []byte("\r\n0\r\n\r\n")), "the answer looks complete", len(rest), "bytes", err)
}

// TestBackupAtShutdown: a server that stops does not wait for a backup, and its client notices that the backup is not
// complete.
func TestBackupAtShutdown(t *testing.T) {
	r := start(t)
	r.randomJobs(30)
	resp := testkit.Must(http.Get(r.url + "/backup"))(t)
	defer resp.Body.Close()
	testkit.Must(tar.NewReader(resp.Body).Next())(t)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.stop()
	}()
	<-r.server.draining.Done()
	testkit.Fails(backup.Receive(t.TempDir(), resp.Body, ""))(t)
	_, err := io.Copy(io.Discard, resp.Body)
	testkit.Holds(t, err != nil && !errors.Is(err, io.EOF), "the rest of the answer", err)
	<-stopped
	testkit.Fails(os.Stat(filepath.Join(r.dir, "backup-checkpoint")))(t, os.ErrNotExist)
}
