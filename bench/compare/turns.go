package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// A measurement runs the benchmarks of two trees in turns.
type measurement struct {
	base, head tree
	scratch    string // where the benchmarks keep their files
	out        string // folder of the results as text
	benchTime  string
	rounds     int
	progress   io.Writer
}

// everything is the pattern of the benchmarks of package matrix.
const everything = "^Benchmark(Journal|Store|Ingest|Process)$"

// names runs all benchmarks of the packages once on each side, to find out their names.
func (m *measurement) names(ctx context.Context, pkgs []string) (base, head results, err error) {
	base, head = results{}, results{}
	for _, s := range []side{{tree: m.base, results: base, text: io.Discard}, {tree: m.head, results: head, text: io.Discard}} {
		for _, pkg := range pkgs {
			fmt.Fprintf(m.progress, "trying the benchmarks of %s of the %s\n", pkg, s.tree.name)
			if err := s.run(ctx, m.scratch, pkg, everything, "1x"); err != nil {
				return nil, nil, err
			}
		}
	}
	return base, head, nil
}

// measure measures the benchmarks on both sides, one after the other, in rounds. It keeps the text of the results in two
// files, whose names begin with stage.
func (m *measurement) measure(ctx context.Context, stage string, list []benchmark) (base, head results, err error) {
	base, head = results{}, results{}
	sides := []side{{tree: m.base, results: base}, {tree: m.head, results: head}}
	for i := range sides {
		file, createErr := os.Create(filepath.Join(m.out, stage+"-"+sides[i].tree.name+".txt"))
		if createErr != nil {
			return nil, nil, createErr
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		sides[i].text = file
	}
	for round := range m.rounds {
		fmt.Fprintf(m.progress, "%s: round %d of %d\n", stage, round+1, m.rounds)
		for i, b := range list {
			order := slices.Clone(sides)
			if (round+i)%2 == 1 {
				slices.Reverse(order)
			}
			for _, s := range order {
				if err := s.run(ctx, m.scratch, b.folder(), b.pattern(), m.benchTime); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	return base, head, nil
}

// side is one tree in a measurement.
type side struct {
	tree    tree
	results results
	text    io.Writer
}

// run runs the benchmarks of a package that match a pattern.
func (s side) run(ctx context.Context, scratch, pkg, pattern, benchTime string) error {
	out, err := run(ctx, filepath.Join(s.tree.dir, pkg), []string{"DAYBOOK_BINARY=" + s.tree.server(), "TMPDIR=" + scratch},
		s.tree.test(pkg), "-test.run=^$", "-test.short", "-test.bench="+pattern, "-test.benchtime="+benchTime, "-test.timeout=10m")
	if err == nil {
		if _, err = s.text.Write(out); err == nil {
			err = s.results.read(bytes.NewReader(out), pkg)
		}
	}
	if err != nil {
		return fmt.Errorf("measure %s of the %s: %w", pkg, s.tree.name, err)
	}
	return nil
}
