package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// reported runs a command for backups with --json, and returns its report.
func reported(t *testing.T, args ...string) (r backupReport) {
	t.Helper()
	testkit.NoError(t, json.Unmarshal([]byte(ok(t, append(args, "--json")...)), &r))
	return r
}

// answered posts a body, and returns the status and the fields of the answer.
func (s *server) answered(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	rq := testkit.Must(http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body)))(t)
	if body != "" {
		rq.Header.Set("Content-Type", "application/json")
	}
	resp := testkit.Must(http.DefaultClient.Do(rq))(t)
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(t)
	fields := map[string]any{}
	if len(text) > 0 {
		testkit.NoError(t, json.Unmarshal(text, &fields), text)
	}
	return resp.StatusCode, fields
}

func (s *server) object(t *testing.T, path, body string) map[string]any {
	t.Helper()
	status, fields := s.answered(t, http.MethodPost, path, body)
	testkit.MustHold(t, status < 300, path, status, fields)
	return fields
}

// claimed claims a job of a type, and returns its id and the claim.
func (s *server) claimed(t *testing.T, typ string) (id, claim string) {
	t.Helper()
	j := s.object(t, "/jobs/claim", `{"runner_id":"r","types":["`+typ+`"]}`)
	return j["job_id"].(string), j["claim_id"].(string)
}

// TestBackupAndRestore: the state of a restored server, and its answers to the runners and producers of the original;
// docs/how-to/backups.md has the same table.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	dir := filepath.Join(t.TempDir(), "backups")
	for _, typ := range []string{"held", "ended later", "claimed later", "again", "deleted later"} {
		s.post(t, "/jobs/create", `{"type":"`+strings.ReplaceAll(typ, " ", "_")+`","payload":"`+typ+`"}`)
	}
	held, heldBy := s.claimed(t, "held")
	endedLater, endedBy := s.claimed(t, "ended_later")
	again, _ := s.claimed(t, "again")
	s.post(t, "/jobs/"+again+"/release", `{"how":"unget"}`)
	address := strings.TrimSpace(ok(t, "blob", "put", "--server", s.url, "--client", "acme", os.Args[0]))

	first := reported(t, "backup", "--server", s.url, dir)
	testkit.Holds(t, first.Jobs == 5 && first.Blobs == 1 && *first.NewBlobs == 1 && first.LastSeq != 0 &&
		first.JobsSeq == first.Cursor && filepath.Dir(first.Backup) == dir, first)

	s.post(t, "/jobs/"+endedLater+"/complete", `{"status":"completed","claim_id":"`+endedBy+`"}`)
	claimedLater, laterBy := s.claimed(t, "claimed_later")
	again, _ = s.claimed(t, "again")
	created := s.object(t, "/jobs/create", `{"type":"created_later"}`)["job_id"].(string)
	createdClaim := s.object(t, "/jobs/claim", `{"runner_id":"r","types":["created_later"]}`)["claim_id"].(string)

	data := filepath.Join(t.TempDir(), "restored")
	restored := reported(t, "restore", dir, "--data", data)
	testkit.Holds(t, restored.Jobs == 5 && restored.JobsSeq >= first.LastSeq && restored.JobStatuses["active"] == 2 &&
		restored.Data == data && restored.Backup == first.Backup, restored)
	r := serving(t, data)
	testkit.Equal(t, len(ok(t, "blob", "get", "--server", r.url, "--client", "acme", address)), int(first.BlobBytes), "the blob")
	for _, c := range []struct {
		what, path, body string
		status           int
		code             string
	}{
		{"a job that was held when the backup was taken, by its claim", "/jobs/" + held + "/complete", `{"status":"completed","claim_id":"` + heldBy + `"}`, 200, ""},
		{"one that was completed afterwards is active again; its runner repeats its report", "/jobs/" + endedLater + "/complete", `{"status":"completed","claim_id":"` + endedBy + `"}`, 200, ""},
		{"one that was claimed afterwards is pending", "/jobs/" + claimedLater + "/complete", `{"status":"completed","claim_id":"` + laterBy + `"}`, 409, "claim_lost"},
		{"a tickle of that claim", "/jobs/tickle", `{"claim_id":"` + laterBy + `"}`, 409, "claim_lost"},
		{"one that was created afterwards is unknown", "/jobs/" + created + "/complete", `{"status":"completed","claim_id":"` + createdClaim + `"}`, 404, "job_not_found"},
	} {
		status, fields := r.answered(t, http.MethodPost, c.path, c.body)
		code, _ := fields["code"].(string)
		testkit.Holds(t, status == c.status && (code == c.code || c.code == ""), c.what, status, fields, "want", c.status, c.code)
	}
	id, _ := r.claimed(t, "claimed_later")
	testkit.Equal(t, id, claimedLater, "the job that was claimed after the backup is not handed out again")
	id, _ = r.claimed(t, "again")
	testkit.Equal(t, id, again, "is handed out")
	fresh := r.object(t, "/jobs/create", `{"type":"created_later"}`)["job_id"].(string)
	testkit.Holds(t, fresh != created, "two jobs have the same id")
	testkit.Equal(t, r.end(t, syscall.SIGTERM), terminal.ExitOK, "exit code")

	second := reported(t, "backup", "--server", s.url, "--no-blobs", "--keep", "1", dir)
	testkit.Holds(t, !second.HasBlobs && len(second.Removed) == 1 && second.Removed[0] == first.Backup, second)
	v := reported(t, "restore", "--verify-only", dir)
	testkit.Holds(t, v.Backup == second.Backup && !v.HasBlobs && v.Data == "", v)
	testkit.Contains(t, ok(t, "backup", "--server", s.url, dir), "6 jobs, up to seq", "verified")
	testkit.Contains(t, ok(t, "restore", dir, "--data", filepath.Join(t.TempDir(), "x")), "restored into")

	blobFile := filepath.Join(s.data, "blobs", "clients", "acme", "blobs", "sha256", strings.TrimPrefix(address, "sha256:"))
	content := testkit.Must(os.ReadFile(blobFile))(t)
	content[len(content)/2] ^= 1
	testkit.NoError(t, os.WriteFile(blobFile, content, 0o600))
	execute(t, "", "backup", "--server", s.url, "--json", filepath.Join(t.TempDir(), "b")).ends(t, terminal.ExitCorrupt, address).prints(t, `"jobs":6`)

	none := serving(t, filepath.Join(t.TempDir(), "data"), "--blobs", "none")
	n := reported(t, "backup", "--server", none.url, filepath.Join(t.TempDir(), "b"))
	testkit.Holds(t, !n.HasBlobs, "a server without blobs", n)
	for _, c := range []struct {
		code int
		args []string
	}{
		{terminal.ExitUsage, []string{"backup"}}, {terminal.ExitUsage, []string{"backup", "--keep", "-1", dir}}, {terminal.ExitUsage, []string{"restore"}},
		{terminal.ExitNoData, []string{"restore", t.TempDir(), "--data", filepath.Join(t.TempDir(), "d")}},
		{terminal.ExitFile, []string{"restore", dir, "--data", data}},
		{terminal.ExitFile, []string{"backup", "--server", s.url, os.Args[0]}},
	} {
		execute(t, "", c.args...).ends(t, c.code)
	}
	testkit.NoError(t, os.WriteFile(filepath.Join(second.Backup, "backup.json"), []byte("{}"), 0o600))
	execute(t, "", "restore", second.Backup, "--data", filepath.Join(t.TempDir(), "d")).ends(t, terminal.ExitCorrupt, "restore another backup: "+dir)
}

// TestBackupText: a count of jobs is beside the last command that it includes.
// TestRestoreOfKeys: a restore brings revoked keys back and says so. With --revoke-keys it revokes all, and a start with
// --admin-key-file makes another admin.
func TestRestoreOfKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, backups := filepath.Join(dir, "admin.key"), filepath.Join(dir, "backups")
	s := serving(t, filepath.Join(dir, "data"))
	testkit.Lacks(t, restoredText(t, s, backups, filepath.Join(dir, "none")), "keys")
	boss := keyFile(t, filepath.Join(dir, "boss.key"), strings.TrimSpace(ok(t, "key", "create", "boss", "--role", "admin", "--server", s.url)))
	lost := keyFile(t, filepath.Join(dir, "lost.key"), strings.TrimSpace(ok(t, "key", "create", "lost", "--role", "reader", "--server", s.url, "--key-file", boss)))
	ok(t, "backup", "--server", s.url, "--key-file", boss, backups)
	ok(t, "key", "revoke", "lost", "--server", s.url, "--key-file", boss)

	kept := filepath.Join(dir, "kept")
	testkit.Contains(t, ok(t, "restore", backups, "--data", kept), "the backup has 2 keys", "--revoke-keys", "--data "+kept)
	ok(t, "queues", "--server", serving(t, kept).url, "--key-file", lost)

	revoked := filepath.Join(dir, "revoked")
	testkit.Contains(t, ok(t, "restore", backups, "--data", revoked, "--revoke-keys"), "revoked all 2 keys", "--admin-key-file")
	testkit.Equal(t, ok(t, "key", "list", "--data", revoked), "")
	report := reported(t, "restore", backups, "--data", filepath.Join(dir, "json"), "--revoke-keys")
	testkit.Holds(t, report.Keys == 2 && report.KeysRevoked, report)
	execute(t, "", "restore", backups, "--verify-only", "--revoke-keys").ends(t, terminal.ExitUsage)
	again := serving(t, revoked, "--admin-key-file", file)
	for _, key := range []string{boss, lost} {
		execute(t, "", "queues", "--server", again.url, "--key-file", key).ends(t, terminal.ExitRefused, "key_refused")
	}
	testkit.Equal(t, strings.Count(ok(t, "key", "list", "--server", again.url, "--key-file", file), "\n"), 1)
}

// restoredText backs a server up and restores it, and returns what the restore prints.
func restoredText(t *testing.T, s *server, backups, data string) string {
	t.Helper()
	ok(t, "backup", "--server", s.url, backups)
	return ok(t, "restore", backups, "--data", data)
}

func TestBackupText(t *testing.T) {
	for want, r := range map[string]backupReport{
		"7 jobs, up to seq 12": {Jobs: 7, JobsSeq: 12, LastSeq: 12},
		"7 jobs at seq 9, and the commands after it up to seq 12": {Jobs: 7, JobsSeq: 9, LastSeq: 12},
	} {
		testkit.Equal(t, r.jobsText(), want)
	}
}

// TestBackupOfAnotherServer: a directory with one server's backups is refused for another server, and nothing is
// fetched into it.
func TestBackupOfAnotherServer(t *testing.T) {
	a, b := serving(t, filepath.Join(t.TempDir(), "data")), serving(t, filepath.Join(t.TempDir(), "data"))
	dir := t.TempDir()
	first := reported(t, "backup", "--server", a.url, dir)
	ok(t, "blob", "put", "--server", b.url, written(t, "blob", "of the other server"))
	r := execute(t, "", "backup", "--server", b.url, "--keep", "1", dir)
	r.ends(t, terminal.ExitUsage, first.Backup, "a directory for each server")
	files := testkit.Must(filepath.Glob(filepath.Join(dir, "blobs", "blobs", "sha256", "*")))(t)
	testkit.Holds(t, len(files) == 0, "its blobs were fetched", files)
	testkit.Equal(t, reported(t, "restore", "--verify-only", dir).Backup, first.Backup)
}

// TestRottenBlobOfABackup: a blob that has changed in the directory of the backups is fetched again and reported; with
// --blobs-by-size the change is not noticed, and the report does not claim that the blob was verified.
func TestRottenBlobOfABackup(t *testing.T) {
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	dir := t.TempDir()
	address := strings.TrimSpace(ok(t, "blob", "put", "--server", s.url, written(t, "blob", "some bytes")))
	first := reported(t, "backup", "--server", s.url, dir)
	file := filepath.Join(dir, "blobs", "blobs", "sha256", strings.TrimPrefix(address, "sha256:"))
	rot := func() { t.Helper(); testkit.NoError(t, os.WriteFile(file, []byte("Some bytes"), 0o600)) }
	rot()
	text := ok(t, "backup", "--server", s.url, "--blobs-by-size", dir)
	testkit.Holds(t, strings.Contains(text, "verified but for earlier blobs") && !strings.Contains(text, "fetched again"), text)
	r := execute(t, "", "restore", first.Backup, "--data", filepath.Join(t.TempDir(), "d"))
	r.ends(t, terminal.ExitCorrupt, "run daybook backup").lacks(t, "restore another backup")
	text = ok(t, "backup", "--server", s.url, dir)
	testkit.Holds(t, strings.Contains(text, "fetched again, since its bytes had changed in the directory of the backups: "+address), text)
	rot()
	repaired := reported(t, "backup", "--server", s.url, dir)
	testkit.Holds(t, len(repaired.Repaired) == 1 && repaired.Repaired[0] == address && !repaired.BlobsBySize, repaired)
	reported(t, "restore", "--verify-only", first.Backup)
}

// largeServer is a server whose backups take some tenths of a second.
func largeServer(t *testing.T) *server {
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	random := make([]byte, 3<<20)
	for n := range 10 {
		for i := range random {
			random[i] = byte('a' + rand.IntN(26))
		}
		s.post(t, "/jobs/create", fmt.Sprintf(`{"type":"t%d","payload":%q}`, n, random))
		if n%3 == 0 {
			path := filepath.Join(t.TempDir(), "blob")
			testkit.NoError(t, os.WriteFile(path, random, 0o600))
			ok(t, "blob", "put", "--server", s.url, path)
		}
	}
	return s
}

// kills returns how many processes a test kills.
func kills() int {
	if testing.Short() {
		return 4
	}
	return 15
}

// killTimes are random times after the start of a process, up to a bound. The bound grows after a kill in time, and
// shrinks after a process that ended first. So it follows the duration of a process, also when the machine becomes
// busier or idle.
type killTimes struct{ most time.Duration }

// killTimesOf are the times for a process that runs the same command as this process has run since began. A process
// takes longer to start.
func killTimesOf(began time.Time) *killTimes { return &killTimes{2 * time.Since(began)} }

// wait returns at a random time of a process that starts now, or when the process ends.
func (m *killTimes) wait(ended chan error) {
	began := time.Now()
	select {
	case err := <-ended:
		ended <- err
		if err == nil {
			m.most = max(5*time.Since(began)/4, time.Millisecond)
		}
	case <-time.After(rand.N(m.most)):
		m.most += m.most / 8
	}
}

// started starts a command in a process. The channel, which has room for one element, receives the end of the process.
func started(t *testing.T, args ...string) (*exec.Cmd, chan error) {
	t.Helper()
	cmd := command(args...)
	testkit.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return cmd, ended
}

// killed runs a command in a process that is killed at a random time, and reports whether it was killed before its end.
func (m *killTimes) killed(t *testing.T, args ...string) bool {
	t.Helper()
	cmd, ended := started(t, args...)
	m.wait(ended)
	_ = cmd.Process.Kill() // the process may have ended
	err := <-ended
	testkit.Holds(t, err == nil || !cmd.ProcessState.Exited(), args, err)
	return err != nil
}

// completeOnly checks that a directory has only complete backups, apart from names that begin with a dot, and that each
// can be restored.
func completeOnly(t *testing.T, dir string) {
	t.Helper()
	entries := testkit.Must(os.ReadDir(dir))(t)
	n := 0
	for _, e := range entries {
		if e.Name() == "blobs" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		n++
		testkit.Equal(t, reported(t, "restore", "--verify-only", filepath.Join(dir, e.Name())).Jobs, 10)
	}
	testkit.Holds(t, n != 0, "no backup is left")
}

// TestKilledBackup: a backup that is killed at any moment does not change the earlier backups, and the next one removes
// its remains.
func TestKilledBackup(t *testing.T) {
	t.Parallel()
	s := largeServer(t)
	dir := t.TempDir()
	began := time.Now()
	ok(t, "backup", "--server", s.url, "--keep", "2", dir)
	m, killed := killTimesOf(began), 0
	for n := 0; n < kills() || killed == 0 && n < 60; n++ {
		if m.killed(t, "backup", "--server", s.url, "--keep", "2", dir) {
			killed++
		}
		completeOnly(t, dir)
		testkit.Eventually(t, "the server has ended the backup", func() bool { // else it refuses the next one
			_, err := os.Stat(filepath.Join(s.data, "backup-checkpoint"))
			return errors.Is(err, os.ErrNotExist)
		})
	}
	ok(t, "backup", "--server", s.url, "--keep", "2", dir)
	entries := testkit.Must(os.ReadDir(dir))(t)
	testkit.Holds(t, len(entries) <= 3, "left", entries)
	completeOnly(t, dir)
	testkit.Holds(t, killed != 0, "no backup was killed")
	testkit.Fails(os.Stat(filepath.Join(s.data, "backup-checkpoint")))(t, os.ErrNotExist)
}

// TestKilledServerOfABackup: a server that is killed while it sends a backup does not change the earlier backups. It
// starts again, removes its checkpoint, and makes the next one.
func TestKilledServerOfABackup(t *testing.T) {
	t.Parallel()
	s := largeServer(t)
	dir := t.TempDir()
	began := time.Now()
	ok(t, "backup", "--server", s.url, dir)
	m, failed := killTimesOf(began), 0
	for n := 0; n < kills() || failed == 0 && n < 60; n++ {
		cmd, ended := started(t, "backup", "--server", s.url, "--keep", "1", dir)
		m.wait(ended)
		testkit.MustEqual(t, s.end(t, syscall.SIGKILL), -1, "the server")
		listen := strings.TrimPrefix(s.url, "http://")
		if rand.IntN(2) == 0 { // another address: the backup fails
			listen = "127.0.0.1:0"
			_ = cmd.Process.Kill() // it would wait for the old server
		}
		s = serving(t, s.data, "--listen", listen)
		_, err := os.Stat(filepath.Join(s.data, "backup-checkpoint"))
		testkit.Holds(t, os.IsNotExist(err) || listen != "127.0.0.1:0", "the checkpoint of the killed server is left", err)
		if <-ended != nil {
			failed++
		}
		completeOnly(t, dir)
	}
	reported(t, "backup", "--server", s.url, "--keep", "1", dir)
	completeOnly(t, dir)
	testkit.Holds(t, failed != 0, "no backup failed")
}

// TestKilledRestore: a restore that is killed at any moment leaves no data directory, an empty one without a journal,
// or a complete one. The next restore removes the remains.
func TestKilledRestore(t *testing.T) {
	t.Parallel()
	s := largeServer(t)
	dir := t.TempDir()
	ok(t, "backup", "--server", s.url, dir)
	parent := t.TempDir()
	data := filepath.Join(parent, "data")
	began := time.Now()
	ok(t, "restore", dir, "--data", data)
	m, killed := killTimesOf(began), 0
	for n := 0; n < 2*kills() || killed == 0 && n < 60; n++ {
		testkit.NoError(t, os.RemoveAll(data))
		if n%2 == 0 { // as a mount point
			testkit.NoError(t, os.Mkdir(data, 0o750))
		}
		if m.killed(t, "restore", dir, "--data", data) {
			killed++
		}
		if _, err := os.Stat(filepath.Join(data, "journal")); os.IsNotExist(err) {
			ok(t, "restore", dir, "--data", data)
		} else if err != nil {
			t.Fatal(err)
		}
		text := ok(t, "check", "--data", data)
		testkit.Holds(t, strings.HasPrefix(text, "ok"), text)
		testkit.Equal(t, len(testkit.Must(os.ReadDir(parent))(t)), 1)
	}
	testkit.Holds(t, killed != 0, "no restore was killed")
	completeOnly(t, dir)
}
