package api

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/api/internal/rates"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// advice explains for each code when the server refuses with it, and what to do. If the first text is empty, the table
// shows the text of the error in the code. To add a code, add a line here, to problemCodes and to the sentinels
// of client/problem/errors.go.
var advice = map[string][2]string{
	"bad_request":            {"the request is malformed, or a value is outside of its bounds; `field` names the field, and `detail` the bounds", "Mend the request."},
	"bad_id":                 {"an id of the path, or of the `field`, is not an id", "Send ids as the server returned them."},
	"bad_address":            {"an address does not have the form of a [blob](api.md#blobs) address", "Send `sha256:` and 64 hex digits."},
	"bad_path":               {"a path of a [fileset](api.md#filesets) leads out of it, or is not allowed in one", "Rename the file that `detail` names."},
	"bad_pattern":            {"a pattern of files is malformed", "Mend the pattern."},
	"bad_manifest":           {"the manifest of a fileset is malformed, or names a wrong size", "Mend the manifest."},
	"bad_archive":            {"an archive of a fileset cannot be read, or has something other than regular files and directories", "Make the archive again."},
	"job_not_active":         {"the job is not active, and the request named no claim", "Read the job. It may have ended, or its lease has."},
	"claim_id_required":      {"the server was started with `--require-claim-id`, and the request names no claim", "Send the `claim_id` of the claim that handed out the job."},
	"forbidden_host":         {"the `Host` header names a host that the server does not serve", "Start the server with `--allow-host`; see [hosts and origins](api.md#hosts-and-origins)."},
	"forbidden_origin":       {"a browser sent the request from a page of another origin", "See [hosts and origins](api.md#hosts-and-origins)."},
	"forbidden_peer":         {"`/quit` was called from another machine, or through a proxy", "Stop the server by SIGTERM, or call it on its own machine."},
	"quit_disabled":          {"the server was started without `--allow-quit`", "Stop the server by SIGTERM."},
	"job_not_found":          {"", "Check the id. An ended job is purged when its retention has passed."},
	"batch_not_found":        {"", "Check the id."},
	"queue_not_found":        {"", "Check client and type. A queue without jobs is empty, which is often no error."},
	"claim_not_found":        {"", "Nothing: all jobs of the claim were purged or claimed again."},
	"sweep_not_found":        {"", "Nothing: it has ended."},
	"session_not_found":      {"", "Open another session. The server does not know whether it carried out an earlier try of the request."},
	"handler_not_found":      {"", "Store the handler, or check client and type."},
	"key_not_found":          {"", "Check the name. A key that was revoked does not exist."},
	"key_required":           {"the request has no key, and the server requires one", "Send `Authorization: Bearer KEY`."},
	"key_refused":            {"the key of the request is wrong, was revoked, or has expired", "Ask whoever runs the server for another key."},
	"token_refused":          {"a token is malformed, has expired, or was not made by an issuer of the configuration for this server; the detail says which", "Get another token. If it is good, compare the audience and the issuer in the [configuration](../how-to/oidc.md)."},
	"no_rule":                {"a token is good, and no rule of its issuer matches its claims", "Add a rule to the [configuration](../how-to/oidc.md), or the person to a group."},
	"issuer_unavailable":     {"the server does not know the keys of the token's issuer: it has not answered for a day or since the start, or it has a new key", "Repeat the request after `Retry-After`; look at the server's log."},
	"login_ended":            {"the login in the cookie has ended, or its key was revoked or got another secret", "Log in again."},
	"login_failed":           {"a person came back from the issuer without a good code, or more than ten minutes later", "Open `/login` again."},
	"login_not_found":        {"", "Log in again."},
	"csrf_required":          {"a browser with a login sent a change without the token of `GET /whoami`", "Send it in the header `Daybook-CSRF`."},
	"no_issuer":              {"no issuer is configured at which people log in", "Log in with a key: `POST /login`."},
	"too_many_logins":        {"", "Wait: logins end after twelve hours."},
	"out_of_scope":           {"the key of the request is not for a client, a type or a runner that the request names, or the request is about all clients", "Use another key, or name what the key is for: daybook key whoami shows it."},
	"role_missing":           {"the key of the request lacks a role; the detail names those of which it needs one", "Use another key, or let an admin create one with the role."},
	"key_exists":             {"a key has this name already", "Choose another name, or rotate the key."},
	"runner_prefix_taken":    {"another key, or a rule of an issuer, is for other clients and may name the same runners; or a runner of other clients has such an id, perhaps of a key that was revoked", "Choose a `runner_prefix` that does not begin with the other one, and with which the other one does not begin."},
	"admin_key_first":        {"the server has no key yet, and the new one could not make others", "Create a key with the role admin first."},
	"runner_not_found":       {"no runner with this id has sent a heartbeat lately or holds jobs", "Check the id."},
	"blob_not_found":         {"there is no such blob: it was never stored, or it was collected because nothing named it", "Store it again."},
	"log_not_found":          {"the job has no log", "Read the job: it may not have begun. Only containers have logs, and programs whose handler has `log_bytes`. What a script prints is in the log of its runner."},
	"upload_not_found":       {"there is no such upload: it was finished, ended, or not used for a long time", "Begin another upload."},
	"fileset_not_found":      {"", "Check client, name and version."},
	"route_not_found":        {"there is no route with this path", "Check the path, and that a Daybook server has this address."},
	"method_not_allowed":     {"the path does not support the method", "Use a method of the header `Allow`."},
	"body_too_slow":          {"the body arrived more slowly than the server accepts", "Send the request again; send smaller bodies over slow connections."},
	"claim_lost":             {"the claim does not hold the job any more: its lease or `timeout_ms` ended, or its runner was lost", "Stop the run and drop its result. Another runner may have the job."},
	"outcome_differs":        {"the claim has ended the job with another outcome", "Drop the outcome: the first one counts."},
	"runner_differs":         {"another runner holds the job", "Send the `runner_id` of the claim, or none."},
	"cancelled":              {"somebody cancelled the job", "Stop the run and drop its result."},
	"job_active":             {"", "Wait until the run has ended, or cancel the job."},
	"job_ended":              {"", "Nothing, or redrive the job to run it again."},
	"job_not_ended":          {"", "Cancel the job first, or wait until it has ended."},
	"queue_not_empty":        {"the queue has jobs", "Delete its jobs first, or wait until they are purged."},
	"key_held":               {"another unfinished job of the queue has the job's unique key", "Wait until that job has ended, or cancel it."},
	"attempts_used":          {"", "Choose a higher `max_attempts`."},
	"number_passed":          {"the slot of the session has carried out a request with a higher number", "Read what was to be changed. Use a number once."},
	"too_many_hops":          {"100 jobs have created each other, one after the other; see [chained jobs](api.md#chained-jobs)", "Look for jobs that create each other without an end."},
	"runner_id_taken":        {"another process that is alive has this runner id; see [heartbeats](api.md#post-runnersid-delete-runnersidinstance)", "Take another id, or end the other process."},
	"runner_replaced":        {"another process has taken the runner id over", "Drop the jobs, and end."},
	"runner_lost":            {"the runner was declared lost, or has ended", "Drop the jobs. Continue with another `instance`."},
	"collecting_blobs":       {"blobs that nothing names are being removed already", "Nothing."},
	"blobs_missing":          {"a manifest names blobs that are not stored; `missing` lists up to 10,000 of them", "Store these blobs, and send the manifest again."},
	"offset_differs":         {"a part of an [upload](api.md#resumable-uploads-post-uploadsclient-patch-uploadsidclient) does not begin where the part before ended", "Read the offset of the upload, and continue from there."},
	"batch_ended":            {"", "Create another batch."},
	"batch_closed":           {"", "Create another batch, or leave it open until all jobs are posted."},
	"no_cluster":             {"the server is no node of a [cluster](../how-to/cluster.md)", "Start it as a node, or ask one."},
	"node_not_found":         {"the cluster has no such node, or it does not vote", "List the nodes: `daybook cluster status`."},
	"quorum_lost":            {"the nodes that are left could store nothing, because too few of them vote or answer", "Start the other nodes first, or remove those that are gone for good."},
	"backup_running":         {"there is one [backup](api.md#get-backup-get-backupclients) at a time", "Wait until it has ended."},
	"length_required":        {"a POST or PATCH of HTTP/1.0 has no `Content-Length`", "Send the header, or use HTTP/1.1."},
	"version_differs":        {"`If-Match` does not name the newest version of the handler or fileset; or the request has `If-None-Match: *`, and there is a version", "Read it, and decide again what to store."},
	"tus_version":            {"the header `Tus-Resumable` names another version than 1.0.0", "Use version 1.0.0."},
	"body_too_large":         {"the body, or a part of it, is larger than the server accepts; see [bounds](api.md#bounds)", "Split it."},
	"payload_too_large":      {"a payload is larger than the server accepts", "Store it as a blob, and name its address."},
	"fileset_too_large":      {"the fileset has too many files, or too long a manifest", "Split it."},
	"unsupported_media_type": {"the `Content-Type` of the body is not one that the route takes, or its encoding is not gzip", "Send one that `detail` names."},
	"bad_range":              {"the range lies outside of the blob", "Read the size of the blob, and send another range."},
	"key_reused":             {"", "Use each key for one request. The keys of different programs must differ."},
	"number_reused":          {"", "Use each number for one request."},
	"wrong_digest":           {"the body is not the blob that the path names", "Send it again: it was damaged on its way, or the address is wrong."},
	"upload_busy":            {"another request appends to the upload", "Wait until it has ended."},
	"upgrade_required":       {"`GET /stream` begins a WebSocket, and the request does not", "Use a client of WebSockets, or the other routes."},
	"overloaded":             {"too many commands are not applied yet, too many bytes are arriving or being sent, too many files of blobs are open, or too many requests follow logs or results", "Send the request again after `Retry-After`."},
	"rate_limited":           {"the key has used up one of its [rates](../how-to/limits.md), or the address has sent ten wrong keys within a minute; a right key is accepted at any time", "Send the request again after `Retry-After`, with the right key."},
	"too_many_queues":        {"", "Delete queues without jobs. Put what has many values into `meta`, not into the type, and use fewer priorities in each queue."},
	"too_many_parked_claims": {"too many claims wait for a job", "Send it again after `Retry-After`, with a shorter `wait_ms`, or claim for several handlers at once."},
	"too_many_keys":          {"the rows of idempotency keys take 16 GiB, or the rows of this client or runner take as much as is left for all", "Use a [session](api.md#sessions-post-sessions-get-sessionsid-delete-sessionsid), which stores less."},
	"too_many_sweeps":        {"", "Send it again when a sweep has ended."},
	"too_many_sessions":      {"there is no place for another session, of this runner or of all, and each open session was used lately; or the remembered answers of this runner take as much as is left of 16 GiB for all. See [sessions](api.md#sessions-post-sessions-get-sessionsid-delete-sessionsid)", "End sessions that are not used any more, and give each runner its own `runner_id`."},
	"too_many_handlers":      {"", "Delete handlers that no runner needs."},
	"too_many_filesets":      {"", "Delete filesets that nobody needs."},
	"too_many_access_keys":   {"", "Revoke keys that nobody needs."},
	"quota_not_found":        {"", "Check the client. Without a quota, a client is bounded only by the limits of the server."},
	"too_many_quotas":        {"", "Delete quotas that nobody needs."},
	"quota_exceeded":         {"the request would give the client more of something than its [quota](../how-to/limits.md#quotas-of-a-client) permits", "The detail has the number. Wait until jobs or sweeps have ended, delete jobs, queues or sessions, or let an admin raise the quota."},
	"too_many_runners":       {"the server knows the maximum number of runners", "Let runners report their end (`DELETE /runners/{id}`)."},
	"too_many_uploads":       {"too many uploads have begun and not ended", "Finish or delete uploads."},
	"too_many_blob_clients":  {"too many clients have blobs", "Use fewer clients."},
	"client_gone":            {"the client hung up before the answer; only in logs and metrics", "Nothing."},
	"internal":               {"the server failed; its log says why", "Read the log, and report the fault."},
	"store_damaged":          {"a file of the store is damaged; `detail` names it and the next step", "See [damaged payloads](api.md#damaged-payloads)."},
	"blob_damaged":           {"the file of a blob is damaged", "Store the blob again, which repairs it."},
	"no_blobs":               {"the server was started with `--blobs none`", "Start it with a store of blobs."},
	"blob_verifying":         {"the server reads a long blob, to verify it", "Send the request again after `Retry-After`."},
	"not_ready":              {"the server replays its journal, or the state has not caught up within 5 s", "Send the request again after `Retry-After`."},
	"writes_failed":          {"the server cannot write its journal; its log says why", "Look at the disk. Send the request again: with a key, a number or a claim if `outcome` is `unknown`."},
	"shutting_down":          {"the server is stopping", "Send the request again after `Retry-After`."},
	"blobs_unavailable":      {"the bucket that keeps the blobs does not answer, or refuses", "Send the request again after `Retry-After`; look at the server's log."},
	"disk_full":              {"the disk is full", "Make room. Send the request again; the server answers reads meanwhile."},
	"blob_quota":             {"all blobs together would have more bytes than `--blob-quota`", "Delete blobs, or raise the quota."},
}

// codedStatus is a code with one of its statuses.
type codedStatus struct {
	status int
	code   string
}

// sources returns the files of this package and of the packages in its folder internal, without tests.
func sources(t *testing.T) (files []string) {
	testkit.NoError(t, filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// nameOf returns the name in an expression such as web.Problem or Problem, or "".
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// refusedBy returns all codes with their statuses and fates, and the texts of the errors that have their own code.
func refusedBy(t *testing.T) (fates map[codedStatus]map[web.Fate]bool, texts map[string]string) {
	t.Helper()
	fates, texts = map[codedStatus]map[web.Fate]bool{}, map[string]string{}
	add := func(status int, code string, f web.Fate) {
		r := codedStatus{status, code}
		if fates[r] == nil {
			fates[r] = map[web.Fate]bool{}
		}
		fates[r][cmp.Or(f, web.NotStored)] = true
	}
	for r := job.NotFound; r < job.NumRefusals; r++ {
		p := refusal.Err(r).(*web.Problem)
		add(p.Status, p.Code, p.Fate)
		texts[p.Code] = p.Detail
	}
	for _, k := range refusal.Known {
		for _, err := range []error{k.Err, fmt.Errorf("%w: %w", k.Err, syscall.ENOSPC)} {
			p := refusal.Of(err)
			add(p.Status, p.Code, p.Fate)
		}
	}
	for _, p := range []*web.Problem{refusal.Of(fs.ErrInvalid)} {
		add(p.Status, p.Code, p.Fate)
	}
	add(web.StatusClientGone, "client_gone", web.Unknown)
	// The remaining ones are in the source, as Problem{Status: http.StatusName, Code: "code" or its constant}.
	statuses := map[string]int{}
	for n := 400; n < 600; n++ {
		statuses[strings.NewReplacer(" ", "", "-", "").Replace(http.StatusText(n))] = n
	}
	var trees []*ast.File
	constants := map[string]string{}
	for _, file := range sources(t) {
		tree := testkit.Must(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
		trees = append(trees, tree)
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 && strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "code") {
				if value, ok := spec.Values[0].(*ast.BasicLit); ok {
					constants[spec.Names[0].Name], _ = strconv.Unquote(value.Value)
				}
			}
			return true
		})
	}
	for _, tree := range trees {
		ast.Inspect(tree, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if nameOf(literal.Type) != "Problem" {
				return true
			}
			var status int
			var code string
			var f web.Fate
			for _, e := range literal.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				switch key := kv.Key.(*ast.Ident).Name; key {
				case "Status":
					status = statuses[strings.TrimPrefix(nameOf(kv.Value), "Status")]
				case "Code":
					if value, ok := kv.Value.(*ast.BasicLit); ok {
						code, _ = strconv.Unquote(value.Value)
					} else {
						code = constants[nameOf(kv.Value)]
					}
				case "Fate":
					f = map[string]web.Fate{"Stored": web.Stored, "Unknown": web.Unknown}[nameOf(kv.Value)]
				}
			}
			if status != 0 && code != "" {
				add(status, code, f)
			}
			return true
		})
	}
	return fates, texts
}

func refusalsTable(t *testing.T) string {
	fates, texts := refusedBy(t)
	var b strings.Builder
	b.WriteString("| status | code | when | what to do | stored |\n|---|---|---|---|---|\n")
	for _, r := range slices.SortedFunc(maps.Keys(fates), func(a, b codedStatus) int {
		return cmp.Or(cmp.Compare(a.status, b.status), strings.Compare(a.code, b.code))
	}) {
		a, found := advice[r.code]
		when := cmp.Or(a[0], texts[r.code])
		testkit.Holds(t, found && when != "", "advice has nothing about", r.code)
		var outcomes []string
		for _, f := range []web.Fate{web.NotStored, web.Stored, web.Unknown} {
			if fates[r][f] {
				outcomes = append(outcomes, "`"+string(f)+"`")
			}
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s | %s |\n", r.status, r.code, when, a[1], strings.Join(outcomes, ", "))
	}
	return b.String()
}

// sentinelsTable lists the errors of the Go client, in the order of its source, with their texts and codes.
func sentinelsTable(t *testing.T) string {
	tree := testkit.Must(parser.ParseFile(token.NewFileSet(), "../client/problem/errors.go", nil, 0))(t)
	var names []string
	texts, codesOf := map[string]string{}, map[string][]string{}
	text := func(e ast.Expr) string { return testkit.Must(strconv.Unquote(e.(*ast.BasicLit).Value))(t) }
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		switch value := spec.Values[0].(type) {
		case *ast.CallExpr: // errors.New
			names = append(names, spec.Names[0].Name)
			texts[spec.Names[0].Name] = text(value.Args[0])
		case *ast.CompositeLit: // sentinels
			for _, e := range value.Elts {
				kv := e.(*ast.KeyValueExpr)
				name := kv.Value.(*ast.Ident).Name
				codesOf[name] = append(codesOf[name], "`"+text(kv.Key)+"`")
			}
		}
		return true
	})
	var b strings.Builder
	b.WriteString("| error | text | codes |\n|---|---|---|\n")
	for _, name := range names {
		slices.Sort(codesOf[name])
		codes := strings.Join(codesOf[name], ", ")
		switch name { // Error.Is has the rules
		case "ErrUnavailable":
			codes = "no server answers; or, if the outcome is `not_stored`: " + codes
		case "ErrUnknown":
			codes = "the answer was lost; or any code whose outcome is `unknown`, except `session_not_found`"
		case "ErrUnexpectedAnswer":
			codes = "none: the answer came from another program, such as a proxy"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, texts[name], codes)
	}
	return b.String()
}

// TestReferenceOfErrors: the tables of docs/reference/errors.md agree with the code. TestExitCodesOfErrors of cmd/daybook
// writes the table of exit codes.
func TestReferenceOfErrors(t *testing.T) {
	const page = "../docs/reference/errors.md"
	text := readDoc(t, "errors.md")
	want := text
	for name, table := range map[string]string{"refusals": refusalsTable(t), "sentinels": sentinelsTable(t)} {
		begin, end := fmt.Sprintf("<!-- %s: written by go test ./api -run TestReferenceOfErrors -rewrite -->\n", name), "<!-- end -->\n"
		before, rest, found := strings.Cut(want, begin)
		_, after, ended := strings.Cut(rest, end)
		testkit.MustHold(t, found && ended, page, "has no place for the table of", name, "the lines", begin, "and", end)
		want = before + begin + "\n" + table + "\n" + end + after
	}
	if text == want {
		return
	}
	if flag.Lookup("rewrite").Value.String() == "true" { // package datadriven defines the flag
		testkit.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	t.Errorf("%s is stale; write it again with go test ./api -run TestReferenceOfErrors -rewrite", page)
}

// TestAdviceHasNoOtherCodes: advice and the OpenAPI document have exactly the codes of the server.
func TestAdviceHasNoOtherCodes(t *testing.T) {
	fates, _ := refusedBy(t)
	has := map[string]bool{}
	for r := range fates {
		has[r.code] = true
	}
	for code := range advice {
		testkit.Holds(t, has[code], "advice has the code", code, "which nothing has")
	}
	listed := allCodes()
	for _, code := range listed {
		testkit.Holds(t, has[code], "problemCodes has the code", code, "which nothing has")
	}
	for code := range has {
		testkit.Holds(t, slices.Contains(listed, code), "problemCodes lacks the code", code)
	}
}

// These tests compare the documents with the code.

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text := testkit.Must(os.ReadFile("../docs/reference/" + name))(t)
	return string(text)
}

func TestEveryRouteIsDocumented(t *testing.T) {
	doc := readDoc(t, "api.md")
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range append(unserved().routes(), unserved().getSwitches()...) {
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
		"key_required": true, "key_refused": true, "token_refused": true, "no_rule": true, "issuer_unavailable": true, "login_ended": true, "login_failed": true, "login_not_found": true, "csrf_required": true, "no_issuer": true, "role_missing": true, "out_of_scope": true, rates.Code: true, "key_exists": true, "runner_prefix_taken": true, "admin_key_first": true, "quit_disabled": true, "claim_id_required": true, "forbidden_peer": true, "upgrade_required": true, "no_blobs": true, codeNoLog: true, "blob_damaged": true, "blobs_missing": true, "bad_range": true, "tus_version": true, "upload_not_found": true, web.RouteNotFound().Code: true, web.MethodNotAllowed("").Code: true}
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
			testkit.Holds(t, codes()[m[1]], e.Name(), "has the code", m[1], "which the list of this test lacks")
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
		testkit.Equal(t, documented[name], kind, "docs/reference/metrics.md, for", name, "its type")
	}
	for name := range documented {
		testkit.Holds(t, exposed[name] != "", "docs/reference/metrics.md has", name, "which /metrics has not")
	}
	for _, must := range []string{"go_goroutines", "process_resident_memory_bytes", `daybook_jobs{status="pending"} 0`, `daybook_batches{status="in_progress"} 0`, `daybook_watermark_seq{mark="synced"}`, "daybook_ready 1", `daybook_command_seconds_count{verb="create"} 1`, `daybook_command_seconds_count{verb="claim"} 1`} {
		testkit.Contains(t, a.body, must)
	}
}
