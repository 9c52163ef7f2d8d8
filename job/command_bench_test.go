package job

import (
	"fmt"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

// BenchmarkCommands measures encoding a command, and decoding it again before it is proposed.
func BenchmarkCommands(b *testing.B) {
	id := NewID(1670273606123, 812, 3)
	list := map[string]Command{
		"claim": Claim{Runner: "host 7, pid=3", Max: 1, Clients: []string{"acme"}, Types: []string{"resize"}, LeaseMs: 30_000, MaxBytes: 8 << 20, Announced: true},
		"complete": Complete{Claim: id, Runner: "host 7, pid=3", Outcomes: []Outcome{
			{ID: id, Code: OK, ExitCode: 200, DelayMs: -1, Result: Result{OutputKind: Text, Output: []byte("two\nlines")}},
		}},
		"create":        commands()["create"],
		"create/groups": thousandGroups(),
	}
	for name, cmd := range list {
		fields, body := cmd.Encode()
		b.Run("encode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fields, body = cmd.Encode()
			}
		})
		b.Run("decode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				testkit.Must(Decode(cmd.Verb(), fields, body))(b)
			}
		})
	}
}

// thousandGroups is the create with the longest header: a thousand groups, each with as much meta as a job may have.
func thousandGroups() *Create {
	c := &Create{Frame: LineFrame, Longest: 1}
	for i := range MaxGroups {
		meta := map[string]string{}
		for entry := range MaxMeta {
			meta[fmt.Sprint("k", entry)] = fmt.Sprintf("%0250d", i)
		}
		c.Groups = append(c.Groups, Group{Client: "acme", Type: "groups", Lines: 1, Attributes: Attributes{MaxAttempts: 3, LeaseMs: 1000, Meta: mustMeta(meta)}})
		c.Payloads = c.Frame.Append(c.Payloads, []byte("p"))
	}
	return c
}
