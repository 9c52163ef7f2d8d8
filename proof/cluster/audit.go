package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client"
)

// audit compares the state of all nodes with each other and with the ledger. There is no load any more.
func (t *trial) audit() error {
	if err := t.Quiet(); err != nil {
		return err
	}
	if err := t.crossReads(); err != nil {
		return err
	}
	var first []stored
	for _, path := range []string{"/jobs?limit=1000", "/queues?limit=1000", "/batches?limit=1000"} {
		var want []json.RawMessage
		for i, n := range t.List {
			got, err := t.readAll(n, path)
			if err != nil {
				return err
			}
			if i == 0 {
				want = got
				if strings.HasPrefix(path, "/jobs") {
					if first, err = decode(got); err != nil {
						return err
					}
				}
				continue
			}
			t.compare(path, t.List[0], n, want, got)
		}
	}
	if len(first) == 0 {
		return fmt.Errorf("node %s has no jobs", t.List[0].Name)
	}
	t.l.judge(first)
	return nil
}

// compare reports the first difference between the lists of two nodes.
func (t *trial) compare(path string, a, b *rig.Node, of, with []json.RawMessage) {
	if len(of) != len(with) {
		t.l.problem("%s: node %s has %d documents, and node %s has %d", path, a.Name, len(of), b.Name, len(with))
	}
	for i := range min(len(of), len(with)) {
		if string(of[i]) != string(with[i]) {
			t.l.problem("%s: nodes %s and %s differ:\n%s\n%s", path, a.Name, b.Name, of[i], with[i])
			return
		}
	}
}

// get reads a document of a node. minSeq may be "".
func (t *trial) get(n *rig.Node, path, minSeq string) (body []byte, err error) {
	ctx, cancel := context.WithTimeout(t.Ctx, rig.NoService)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.Process.URL()+path, nil)
	if err != nil {
		return nil, err
	}
	if minSeq != "" {
		req.Header.Set("Daybook-Min-Seq", minSeq)
	}
	answer, err := t.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if body, err = io.ReadAll(answer.Body); err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s of %s: %d %s", path, n.Name, answer.StatusCode, body)
	}
	return body, err
}

// readAll reads all pages of a list.
func (t *trial) readAll(n *rig.Node, path string) (all []json.RawMessage, err error) {
	for next := path; next != ""; {
		body, err := t.get(n, next, "")
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("GET %s of %s: %w", next, n.Name, err)
		}
		var after string
		for name, value := range page {
			if name == "next" {
				err = json.Unmarshal(value, &after)
			} else {
				var list []json.RawMessage
				err = json.Unmarshal(value, &list)
				all = append(all, list...)
			}
			if err != nil {
				return nil, fmt.Errorf("GET %s of %s: %s: %w", next, n.Name, name, err)
			}
		}
		if next = ""; after != "" {
			next = path + "&after=" + after
		}
	}
	return all, nil
}

// decode returns the jobs of documents.
func decode(documents []json.RawMessage) (list []stored, err error) {
	for _, text := range documents {
		var d struct {
			JobID       string `json:"job_id"`
			Type        string
			Status      string
			Payload     string
			Output      string
			RunAttempts int `json:"run_attempts"`
			Meta        map[string]string
		}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("job %.300s: %w", text, err)
		}
		j := stored{id: d.JobID, typ: d.Type, status: d.Status, tag: d.Payload, of: d.Meta["of"], output: d.Output, attempts: d.RunAttempts}
		if j.typ != nextType { // the payload of a job that follows another is the output of that job
			j.tag, _, _ = strings.Cut(d.Payload, " ")
		}
		list = append(list, j)
	}
	return list, nil
}

// crossReads creates a job at each node, and reads it at each other node with the Daybook-Seq of the answer.
func (t *trial) crossReads() error {
	for i, n := range t.List {
		tag := fmt.Sprint(t.name, "-cross-", i)
		t.l.ask(false, tag)
		body := fmt.Sprintf(`{"type":%q,"payload":%q}`, workedType, tag+" ")
		answer, err := t.HTTP.Post(n.Process.URL()+"/jobs/create", "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		var made struct {
			ID string `json:"job_id"`
		}
		err = json.NewDecoder(answer.Body).Decode(&made)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusCreated {
			return fmt.Errorf("create at %s: %d, %w", n.Name, answer.StatusCode, err)
		}
		t.l.answer(nil, []string{made.ID}, tag)
		for _, other := range t.Others(n) {
			if _, err := t.get(other, "/jobs/"+made.ID, answer.Header.Get("Daybook-Seq")); err != nil {
				t.l.problem("job %s was created at node %s with Daybook-Seq %s: %v", made.ID, n.Name, answer.Header.Get("Daybook-Seq"), err)
			}
		}
		// Nobody works any more.
		claim, err := n.Client.Claim(t.Ctx, client.ClaimRequest{RunnerID: "audit", Types: []string{workedType}})
		if err != nil || claim == nil || len(claim.Jobs) != 1 || claim.Jobs[0].ID != made.ID {
			return fmt.Errorf("claim of job %s at %s: %+v, %w", made.ID, n.Name, claim, err)
		}
		t.l.returns(made.ID, tag)
		if _, err := n.Client.Complete(t.Ctx, made.ID, claim.ID, client.TextOutput(tag)); err != nil {
			return err
		}
		t.l.complete(made.ID, tag)
	}
	return nil
}

// checkData checks the log and the store of a node that has ended cleanly.
func (t *trial) checkData(n *rig.Node) {
	for _, verb := range []string{"journal verify", "check"} {
		args := append(strings.Fields(verb), "--data", n.Process.Data)
		if out, err := exec.Command(n.Process.Binary, args...).CombinedOutput(); err != nil {
			t.l.problem("daybook %s of node %s: %v\n%s", verb, n.Name, err, out)
		}
	}
}
