package api

import (
	"bufio"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// These tests compare the documents with the code.

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text := testkit.Must(os.ReadFile("../docs/reference/" + name))(t)
	return string(text)
}

func TestEveryRouteIsDocumented(t *testing.T) {
	doc := readDoc(t, "api.md")
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range append((&Server{}).routes(), (&Server{}).getSwitches()...) {
		path := r.method + " " + param.ReplaceAllString(r.path, "{$1}")
		if !regexp.MustCompile("`"+regexp.QuoteMeta(path)+"[`?]").MatchString(doc) &&
			!strings.Contains(doc, strings.Replace(path, "POST /add", "`POST /add?", 1)) &&
			!strings.Contains(doc, "`"+strings.TrimPrefix(path, "GET ")+"`") {
			t.Errorf("docs/reference/api.md does not have %s", path)
		}
	}
}

// codes are all codes that a problem can have.
func codes() map[string]bool {
	all := map[string]bool{"internal": true, "disk_full": true, "client_gone": true, "payload_too_large": true, "batch_not_found": true, "body_too_slow": true, "length_required": true,
		"forbidden_host": true, "forbidden_origin": true, web.CodeBadRequest: true, web.CodeBadID: true, web.CodeUnsupported: true,
		"quit_disabled": true, "claim_id_required": true, "forbidden_peer": true, "upgrade_required": true, "no_blobs": true, codeNoLog: true, "blob_damaged": true, "blobs_missing": true, "bad_range": true, "tus_version": true, "upload_not_found": true, web.RouteNotFound().Code: true, web.MethodNotAllowed("").Code: true}
	for _, k := range refusal.Known {
		all[k.Code] = true
	}
	for r := job.NotFound; r < job.NumRefusals; r++ {
		all[r.Code()] = true
	}
	return all
}

func TestCodesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| \\d{3} \\| `([a-z_]+)` \\|").FindAllStringSubmatch(readDoc(t, "errors.md"), -1) {
		documented[m[1]] = true
	}
	for code := range codes() {
		testkit.Holds(t, documented[code], "docs/reference/errors.md does not list the code", code)
	}
	for code := range documented {
		testkit.Holds(t, codes()[code], "docs/reference/errors.md lists the code", code, "which nothing has")
	}
	// The source has literal codes, too. codes must have all of them.
	literal := regexp.MustCompile(`code: "([a-z_]+)"`)
	entries := testkit.Must(os.ReadDir("."))(t)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.go") || !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text := testkit.Must(os.ReadFile(e.Name()))(t)
		for _, m := range literal.FindAllStringSubmatch(string(text), -1) {
			if !codes()[m[1]] {
				t.Errorf("%s has the code %s, which the list of this test lacks", e.Name(), m[1])
			}
		}
	}
}

func TestMetricsAreDocumented(t *testing.T) {
	r := start(t)
	r.add("/add", "x\n").object(http.StatusCreated)
	r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK) // the create is applied
	a := r.get("/metrics")
	testkit.MustEqual(t, a.status, http.StatusOK, a.body)
	row := regexp.MustCompile("(?m)^\\| `(daybook_[a-z0-9_]+)` \\| ([a-z]+) \\|")
	documented := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(readDoc(t, "metrics.md"), -1) {
		documented[m[1]] = m[2]
	}
	exposed := map[string]string{}
	for s := bufio.NewScanner(strings.NewReader(a.body)); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) == 4 && f[1] == "TYPE" && strings.HasPrefix(f[2], "daybook_") {
			exposed[f[2]] = f[3]
		}
	}
	for name, kind := range exposed {
		testkit.Equal(t, documented[name], kind, "docs/reference/metrics.md, for", name, "which is a")
	}
	for name := range documented {
		testkit.Holds(t, exposed[name] != "", "docs/reference/metrics.md has", name, "which /metrics has not")
	}
	for _, must := range []string{"go_goroutines", "process_resident_memory_bytes", `daybook_jobs{status="pending"} 0`, `daybook_batches{status="in_progress"} 0`, `daybook_watermark_seq{mark="synced"}`, "daybook_ready 1", `daybook_command_seconds_count{verb="create"} 1`, `daybook_command_seconds_count{verb="claim"} 1`} {
		testkit.Contains(t, a.body, must)
	}
}
