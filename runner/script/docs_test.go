package script

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
)

func document(t *testing.T, name string) string {
	t.Helper()
	text := testkit.Must(os.ReadFile("../../docs/reference/" + name))(t)
	return string(text)
}

// TestExamplesOfHandlers: the examples in docs/reference/handlers.md return the results that the page states.
func TestExamplesOfHandlers(t *testing.T) {
	found := regexp.MustCompile("(?s)```\\w+\n(?://|#) lang: (\\w+)\n(.*?)```").FindAllStringSubmatch(document(t, "handlers.md"), -1)
	testkit.MustEqual(t, len(found), len(handler.Langs), "examples")
	for _, example := range found {
		t.Run(example[1], func(t *testing.T) {
			x := newBed(t).executor("1", handler.Document{Lang: example[1], Source: example[2], ChainTypes: []string{"mail"}})
			output := "ok text:HELLO"
			if example[1] == handler.Shell {
				output += "\n"
			}
			expect(t, run(x, texts("hello", "")...), output+" then mail|hello is done", "failed:there is nothing to do")
		})
	}
}

// TestExampleOfTheProtocol: the host of node sends the messages in docs/reference/script-protocol.md.
func TestExampleOfTheProtocol(t *testing.T) {
	_, example, _ := strings.Cut(document(t, "script-protocol.md"), "```text\n")
	example, _, _ = strings.Cut(example, "```")
	b := newBed(t)
	need(t, b.Pool, handler.Node)
	i := testkit.Must(b.interpreters[handler.Node]())(t)
	c := testkit.Must(startChild(&b.child, i, &sandbox.Grants{}, sandbox.Limits{}, func(string, string) {}))(t)
	defer c.close()
	c.begin(context.Background(), time.Minute)
	for line := range strings.Lines(example) {
		text := strings.TrimSpace(line[1:])
		if line[0] == '>' {
			testkit.NoError(t, c.write([]byte(text+"\n")))
			continue
		}
		got, err := c.lines.Next(1 << 20)
		testkit.MustHold(t, err == nil && string(got) == text, string(got), err, "the document says", text)
	}
}
