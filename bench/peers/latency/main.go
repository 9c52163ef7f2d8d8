// Command latency draws the measurements of `make bench SET=open`: for each work, the latency at each percentile, one line
// for each rate of arrivals.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/daybookq/daybook/bench/peers/plot"
)

func main() {
	in := flag.String("in", "bin/open-loop.json", "results of bench/open")
	out := flag.String("out", "docs/explanation/open-loop.svg", "the picture")
	flag.Parse()
	if err := draw(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func draw(in, out string) error {
	text, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	var r plot.OpenLoop
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read %s: %w", in, err)
	}
	return plot.WriteOpenLoop(out, &r)
}
