package job

import "testing"

// BenchmarkCommands measures how long a command is encoded, and decoded again before it is proposed.
func BenchmarkCommands(b *testing.B) {
	id := NewID(1670273606123, 812, 3)
	list := map[string]Command{
		"claim": Claim{Runner: "host 7, pid=3", Max: 1, Clients: []string{"acme"}, Types: []string{"resize"}, LeaseMs: 30_000, MaxBytes: 8 << 20, Announced: true},
		"complete": Complete{Claim: id, Runner: "host 7, pid=3", Outcomes: []Outcome{
			{ID: id, Code: OK, ExitCode: 200, DelayMs: -1, Result: Result{OutputKind: Text, Output: []byte("two\nlines")}},
		}},
		"create": commands()["create"],
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
				if _, err := Decode(cmd.Verb(), fields, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
