package runner

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestMetricsAreDocumented: docs/reference/runners.md lists exactly the metrics of a runner.
func TestMetricsAreDocumented(t *testing.T) {
	text := testkit.Must(os.ReadFile("../docs/reference/runners.md"))(t)
	name := regexp.MustCompile("[`\"](daybook_runner_[a-z_]+)")
	documented := map[string]bool{}
	for _, m := range name.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	files := testkit.Must(filepath.Glob("*.go"))(t)
	made := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source := testkit.Must(os.ReadFile(file))(t)
		for _, m := range name.FindAllStringSubmatch(string(source), -1) {
			made[m[1]] = true
			testkit.Holds(t, documented[m[1]], "docs/reference/runners.md lacks", m[1])
		}
	}
	for name := range documented {
		testkit.Holds(t, made[name], "docs/reference/runners.md has", name, "which a runner has not")
	}
	testkit.Holds(t, len(made) >= 15, "only", len(made), "metrics were found")
}
