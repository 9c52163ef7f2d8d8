package report

import (
	"encoding/json"
	"os"

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
