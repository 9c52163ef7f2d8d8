// Command producer posts each line of standard input as a job: producer TYPE KEY < lines.txt
//
// KEY names this input. If the producer is killed, or its machine stops, run it again with the same input and the same KEY:
// lines that the server has already stored are not stored twice. The server remembers a key for 24 hours.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/daybookq/daybook/client"
)

// patience is how long the server may be unreachable before the producer gives up.
const patience = 10 * time.Minute

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: producer TYPE KEY < lines.txt")
		os.Exit(2)
	}
	c := client.New(cmp.Or(os.Getenv("DAYBOOK_SERVER"), "http://127.0.0.1:1717"), client.Options{RetryFor: patience})
	// Add splits the input into bodies of whole lines, and posts several at once. Each body has its own key, so Add can
	// repeat a body whose answer was lost: if the server has stored the body, it returns the first answer.
	result, err := c.Add(context.Background(), os.Stdin, client.AddOptions{Type: os.Args[1], Key: os.Args[2]})
	switch {
	case errors.Is(err, client.ErrKeyReused):
		fmt.Fprintln(os.Stderr, "the key belongs to another input:", err)
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrOverloaded), errors.Is(err, client.ErrUnknown):
		fmt.Fprintln(os.Stderr, err, "- run this command again with the same input and key")
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
	default:
		fmt.Println(result.Jobs)
		return
	}
	os.Exit(1)
}
