package api

import (
	"net/http"
	"testing"
)

// TestPlace: the line of a job counts over all requests that filled its batch.
func TestPlace(t *testing.T) {
	r := start(t)
	place := func(id, batch string, line any) {
		t.Helper()
		want(t, r.get("/jobs/"+id+"?view=place").object(http.StatusOK), "job_id", id, "batch_id", batch, "line", line)
	}
	o := r.post("/jobs/create", `{"batch":{"type":"x","open":true},"jobs":[{"payload":"0"},{"payload":"1"}]}`).object(http.StatusCreated)
	batch := o["batch_id"].(string)
	place(o["last_id"].(string), batch, 1)
	for i := range 3 {
		o = r.post("/batches/"+batch+"/jobs", `[{"payload":"a"},{"payload":"b"},{"payload":"c"}]`).object(http.StatusCreated)
		place(o["first_id"].(string), batch, 2+3*i)
		place(o["last_id"].(string), batch, 4+3*i)
	}

	plain := r.post("/jobs/create", `[{"type":"y"},{"type":"y"}]`).object(http.StatusCreated)
	place(plain["last_id"].(string), plain["batch_id"].(string), 1)
	if a := r.delete("/jobs/" + plain["last_id"].(string)); a.status != http.StatusNoContent {
		t.Fatal(a.status, a.body)
	}
	r.get("/jobs/"+plain["last_id"].(string)+"?view=place").refused(http.StatusNotFound, "job_not_found")

	alone := r.make(`{"type":"z"}`)
	if o := r.get("/jobs/" + alone + "?view=place").object(http.StatusOK); o["batch_id"] != nil || o["line"] != nil {
		t.Errorf("a job without a batch: %v", o)
	}
	r.get("/jobs/"+unknownID+"?view=place").refused(http.StatusNotFound, "job_not_found")
	r.get("/jobs/" + alone + "?view=place&fields=step").wrong("view")
	a := r.get("/jobs/" + alone + "?view=place")
	a.object(http.StatusOK)
	tag := a.header.Get("ETag")
	if a := r.get("/jobs/"+alone+"?view=place", "If-None-Match", tag); a.status != http.StatusNotModified || tag == "" {
		t.Errorf("%d for the entity tag %q", a.status, tag)
	}
}
