// Command before creates the tables of River, and two jobs: one is available, and one is scheduled.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type RenderArgs struct {
	File  string `json:"file"`
	Width int    `json:"width"`
}

func (RenderArgs) Kind() string { return "render" }

func main() {
	ctx := context.Background()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	must(must(rivermigrate.New(riverpgxv5.New(pool), nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))

	client := must(river.NewClient(riverpgxv5.New(pool), &river.Config{})) // without workers: it only inserts
	must(client.Insert(ctx, RenderArgs{"cat.png", 80}, &river.InsertOpts{MaxAttempts: 5}))
	must(client.Insert(ctx, RenderArgs{"dog.png", 80}, &river.InsertOpts{MaxAttempts: 5, Priority: 2, ScheduledAt: time.Now().Add(time.Hour)}))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
