package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// JSON writes a report to a file.
func JSON(path string, r *measure.Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// The lines around the block of the page that a run replaces.
const (
	blockBegin = "<!-- peers -->\n"
	blockEnd   = "<!-- /peers -->\n"
)

// Page replaces the block of a page of documentation.
func Page(path, markdown string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(page), blockBegin)
	_, after, ended := strings.Cut(rest, blockEnd)
	if !begun || !ended {
		return fmt.Errorf("%s has no block for the figures: it must have a line %q and, below it, a line %q", path, blockBegin, blockEnd)
	}
	return os.WriteFile(path, []byte(before+blockBegin+"\n"+markdown+"\n"+blockEnd+after), 0o644)
}
