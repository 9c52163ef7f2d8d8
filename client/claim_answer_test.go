package client

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job/runs"
)

// claimLines are job documents of one claim, as the server writes them.
func claimLines() []string {
	document := func(id, payload, rest string) string {
		return `{"job_id":"018bcfe5-6800-7000-8000-0000004000` + id + `","client":"acme","payload":` + payload + `,"payload_b64":null,"attempts":[],"run_attempts":1` + rest + `}`
	}
	return []string{
		document("00", `"plain"`, ""), document("01", `"with \"escapes\" and \u00e9"`, ""), document("02", `""`, ""), document("03", `{"a":[1,"x"]}`, ""),
		document("04", `null`, ""), document("05", `"again"`, ""), document("06", `"other"`, `,"meta":{"k":"v"}`), document("07", `"alike"`, `,"meta":{"k":"v"}`),
		document("08", `"p"`, `,"progress":0.5`), document("09", `"q"`, `,"progress":0.5`), document("0a", `7`, ""), document("0b", `true`, ""),
		document("0c", `"p"`, `,"output":"o"`), document("0d", `"q"`, `,"output":"o"`),
	}
}

// A document that is read by comparison with its predecessor gives the same job as when it is parsed in full.
func checkClaimLines(t *testing.T, body []byte) {
	a := transport.Answer{MediaType: transport.MimeNDJSON, Body: body}
	quick, err := decodeClaim(a)
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	document := append([]byte(`{"claim_id":"c","lease_ms":5,"jobs":[`), bytes.Join(lines[1:], []byte(","))...)
	full, fullErr := decodeClaim(transport.Answer{MediaType: transport.MimeJSON, Body: append(document, "]}"...)})
	if err != nil || fullErr != nil {
		for _, line := range lines[1:] { // two lines may form one JSON value, which no server sends
			if !jsontext.Value(line).IsValid() {
				return
			}
		}
		testkit.Holds(t, (err == nil) == (fullErr == nil) || !bytes.HasPrefix(body, []byte(claimLine)) || !bytes.HasSuffix(body, []byte("\n")) ||
			len(lines) <= 1, "quick", err, "in full", fullErr)
		return
	}
	testkit.MustEqual(t, len(quick.Jobs), len(full.Jobs), "jobs in full")
	for i := range quick.Jobs {
		testkit.DeepEqual(t, quick.Jobs[i], full.Jobs[i], "job", i, "in full")
	}
}

const claimLine = `{"claim_id":"c","lease_ms":5}` + "\n"

func TestJobsThatAreAlikeAreReadAsInFull(t *testing.T) {
	checkClaimLines(t, []byte(claimLine+strings.Join(claimLines(), "\n")+"\n"))
	t.Run("each job has maps and payloads of its own", func(t *testing.T) {
		c, err := decodeClaim(transport.Answer{MediaType: transport.MimeNDJSON, Body: []byte(claimLine + claimLines()[6] + "\n" + claimLines()[7] + "\n")})
		testkit.NoError(t, err)
		c.Jobs[0].Meta["k"] = "changed"
		c.Jobs[1].Payload = append(c.Jobs[1].Payload, "longer"...)
		testkit.MustEqual(t, c.Jobs[1].Meta["k"], "v", c.Jobs)
		testkit.Equal(t, string(c.Jobs[0].Payload), "other", c.Jobs)
	})
	for name, body := range map[string]string{
		"cut in a job": claimLine + claimLines()[0][:50], "cut before the end of the line": claimLine + claimLines()[0],
		"a job without an id": claimLine + "{}\n", "not JSON": claimLine + claimLines()[0] + "\nx\n", "no head": "\n",
		"a text that ends early":   claimLine + claimLines()[0] + "\n" + strings.Replace(claimLines()[0], `"plain"`, `"a"b"`, 1) + "\n",
		"a text that is not UTF-8": claimLine + claimLines()[0] + "\n" + strings.Replace(claimLines()[0], `plain`, "\xff", 1) + "\n",
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			testkit.Fails(decodeClaim(transport.Answer{MediaType: transport.MimeNDJSON, Body: []byte(body)}))(t)
		})
	}
}

func FuzzClaimLines(f *testing.F) {
	for _, a := range claimLines() {
		for _, b := range claimLines() {
			f.Add([]byte(claimLine + a + "\n" + b + "\n"))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkClaimLines(t, body) })
}

func goldenRuns(t testing.TB, name string) []byte {
	t.Helper()
	return testkit.Must(os.ReadFile("../testdata/runs/" + name + ".runs"))(t)
}

// TestClaimInRuns: an answer in runs is read whole or not at all.
func TestClaimInRuns(t *testing.T) {
	text := goldenRuns(t, "claim")
	claim := testkit.Must(decodeClaim(transport.Answer{MediaType: runs.MediaType, Body: text}))(t)
	testkit.MustHold(t, len(claim.Jobs) == 107 && claim.LeaseMs == 30_000, claim)
	if j := claim.Jobs[2]; string(j.Payload) != "third" || j.Kind != Text || j.ID == claim.Jobs[0].ID || j.ClaimID != claim.ID || j.RunnerID != "runner 1" {
		t.Errorf("%+v", j)
	}
	if j := claim.Jobs[3]; j.Kind != JSON || *j.Progress != 0 || j.Meta["colour"] != "deep red" || j.Attempts[0].Error != "it\nbroke" || j.UniqueKey != "order 7, %" || j.CreatedBy != "oidc/corp/a b" {
		t.Errorf("%+v", j)
	}
	j := claim.Jobs[106]
	testkit.Holds(t, j.BatchID == "" && string(j.Payload) == "z", j)
	claim.Jobs[0].Payload = append(claim.Jobs[0].Payload, "more"...)
	testkit.Equal(t, string(claim.Jobs[2].Payload), "third", "a payload that grows changes another one")
	for n := range text {
		_, err := decodeClaim(transport.Answer{MediaType: runs.MediaType, Body: text[:n]})
		testkit.MustHold(t, errors.Is(err, problem.ErrUnexpectedAnswer), n, "of", len(text), "bytes", err)
	}
}

func FuzzClaimInRuns(f *testing.F) {
	f.Add(goldenRuns(f, "claim"))
	f.Add(goldenRuns(f, "refused"))
	f.Fuzz(func(t *testing.T, text []byte) {
		claim, err := decodeClaim(transport.Answer{MediaType: runs.MediaType, Body: text})
		if err != nil {
			return
		}
		for _, j := range claim.Jobs {
			testkit.Holds(t, len(j.ID) == idBytes && j.ClaimID == claim.ID && j.Status == "active", j)
		}
	})
}
