package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/problem"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleClient_Create() {
	c, stop := clienttest.Server()
	defer stop()
	job, err := c.Create(context.Background(), client.TextJob("greet", "hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.Type, job.Status, string(job.Payload), job.RunAttempts)
	// Output: greet pending hello 0
}

func ExampleClient_CreateMany() {
	c, stop := clienttest.Server()
	defer stop()
	first, again := client.TextJob("bill", "order 7"), client.TextJob("bill", "order 7, once more")
	first.UniqueKey, again.UniqueKey = "order 7", "order 7"

	created, err := c.CreateMany(context.Background(), []client.NewJob{first, again}, client.CreateOptions{Key: client.NewKey()})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range created.Results {
		fmt.Println(r.JobID == created.FirstID, r.Existing)
	}
	// Output:
	// true false
	// true true
}

func ExampleClient_CancelQueue() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	if _, err := c.AddLines(ctx, []byte("one\ntwo\nthree\n"), client.AddOptions{Client: "acme", Type: "resize"}); err != nil {
		fmt.Println(err)
		return
	}

	sweep, err := c.CancelQueue(ctx, "acme", "resize", "")
	if err == nil {
		sweep, err = c.WaitSweep(ctx, sweep, nil)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sweep.Moved, sweep.Done)
	// Output: 3 true
}

func ExampleClient_Redrive() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	job, err := c.Create(ctx, client.TextJob("resize", "cat.png"))
	if err == nil {
		_, err = c.Cancel(ctx, job.ID)
	}
	if err == nil {
		job, err = c.Redrive(ctx, job.ID)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.Status, job.Redrives)
	// Output: pending 1
}

func ExampleClient_Patch() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	job, err := c.Create(ctx, client.TextJob("resize", "cat.png"))
	if err != nil {
		fmt.Println(err)
		return
	}
	urgent := 9
	if job, err = c.Patch(ctx, job.ID, client.Patch{Priority: &urgent}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.Priority, job.Status)
	// Output: 9 pending
}

func ExampleClient_Stop() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	if _, err := c.AddLines(ctx, []byte("one\n"), client.AddOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Stop(ctx); err != nil {
		fmt.Println(err)
		return
	}
	claim, err := c.Claim(ctx, client.ClaimRequest{RunnerID: "runner 1"})
	fmt.Println(claim, err)
	// Output: <nil> <nil>
}

func ExampleClient_Add() {
	c, stop := clienttest.Server()
	defer stop()
	input := strings.NewReader("first\nsecond\n\nthird\n")
	result, err := c.Add(context.Background(), input, client.AddOptions{Type: "greet"})
	if err != nil {
		// The result says what is stored. The same input with Resume: &result continues from there.
		fmt.Println(err)
		return
	}
	fmt.Println(result.Jobs, "jobs of", result.Bytes, "bytes")
	// Output: 3 jobs of 20 bytes
}

func ExampleClient_Claim() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	must(c.AddLines(ctx, []byte("one\ntwo\nthree\n"), client.AddOptions{}))

	claim, err := c.Claim(ctx, client.ClaimRequest{RunnerID: "r1", Max: 100})
	if err != nil || claim == nil {
		fmt.Println("nothing to do", err)
		return
	}
	for _, job := range claim.Jobs {
		fmt.Println(string(job.Payload), job.Status, job.RunAttempts)
	}
	// All jobs except the second are ok.
	ended, results, err := c.CompleteClaim(ctx, claim.ID, client.Outcome{},
		client.JobOutcome{JobID: claim.Jobs[1].ID, Outcome: client.Outcome{Code: "failed", Error: "no such file"}})
	fmt.Println(ended, results[0].Status, err)
	// Output:
	// one active 1
	// two active 1
	// three active 1
	// 2 failed <nil>
}

func ExampleClient_Complete() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	must(c.Create(ctx, client.JSONJob("resize", []byte(`{"width":80}`))))
	claim := must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r1"}))
	job := claim.Jobs[0]

	done, err := c.Complete(ctx, job.ID, claim.ID, client.JSONOutput([]byte(`{"bytes":1234}`)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(done.Status, string(done.Output))

	// A late runner changes nothing, since its claim no longer holds the job.
	_, err = c.Complete(ctx, job.ID, job.ID, client.Outcome{Code: "failed"})
	fmt.Println(errors.Is(err, problem.ErrClaimLost))
	// Output:
	// completed {"bytes":1234}
	// true
}

func ExampleClient_TickleClaim() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	must(c.AddLines(ctx, []byte("one\ntwo\n"), client.AddOptions{}))
	claim := must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r1", Max: 2}))

	held, err := c.TickleClaim(ctx, claim.ID, client.TickleOptions{})
	fmt.Println(held.Held, len(held.Lost), err)
	// Output: 2 0 <nil>
}

func ExampleClient_Queues() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	must(c.AddLines(ctx, []byte("one\ntwo\n"), client.AddOptions{Client: "acme", Type: "resize"}))
	must(c.Pause(ctx, "acme", "resize"))
	for queue, err := range c.Queues(ctx, "") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(queue.Client, queue.Type, queue.Counts["pending"], queue.Paused)
	}
	// Output: acme resize 2 true
}

func ExampleClient_Jobs() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	must(c.AddLines(ctx, []byte("one\ntwo\nthree\n"), client.AddOptions{Type: "greet"}))
	claim := must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r1"}))
	must(c.Complete(ctx, claim.Jobs[0].ID, claim.ID, client.Outcome{Code: "failed", Error: "no such file"}))

	// Fields names the fields that are needed. Without it the list has the whole document of each job.
	for job, err := range c.Jobs(ctx, client.JobsQuery{Type: "greet", Status: "failed", Fields: []string{"status", "error"}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(job.ID == claim.Jobs[0].ID, job.Status, job.Error, job.Type)
	}
	// Output: true failed no such file
}

func ExampleClient_Runners() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	must(c.AddLines(ctx, []byte("one\ntwo\nthree\n"), client.AddOptions{}))
	must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r1", Max: 2}))
	for runner, err := range c.Runners(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(runner.ID, runner.Held, runner.ClaimCount)
	}
	// Output: r1 2 1
}

func ExampleClient_ClaimInfo() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	must(c.AddLines(ctx, []byte("one\ntwo\n"), client.AddOptions{}))
	claim := must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r1", Max: 2}))
	must(c.Complete(ctx, claim.Jobs[0].ID, claim.ID, client.Outcome{}))

	info, err := c.ClaimInfo(ctx, claim.ID, "payload")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.RunnerID, "holds", info.Held, "of", info.HandedOut)
	for _, job := range info.Jobs {
		fmt.Println(string(job.Payload))
	}
	// Output:
	// r1 holds 1 of 2
	// two
}

func ExampleClient_WaitingTypes() {
	c, stop := clienttest.Server()
	defer stop()
	ctx := context.Background()
	must(c.AddLines(ctx, []byte("one\ntwo\n"), client.AddOptions{Client: "acme", Type: "resize"}))
	must(c.AddLines(ctx, []byte("three\n"), client.AddOptions{Type: "resize"}))
	for waiting, err := range c.WaitingTypes(ctx, "") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(waiting.Type, waiting.Waiting)
	}
	// Output: resize 3
}
