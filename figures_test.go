package daybook_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestFiguresOfTheREADME: the figures of the README are medians of the newest comparison in performance.md.
func TestFiguresOfTheREADME(t *testing.T) {
	readme := testkit.Must(os.ReadFile("README.md"))(t)
	page := testkit.Must(os.ReadFile("docs/explanation/performance.md"))(t)
	_, comparison, found := strings.Cut(string(page), "**Creating in bulk**")
	testkit.MustHold(t, found, "performance.md has no comparison")
	median := func(work, driver string) float64 {
		m := regexp.MustCompile(`(?m)^\| ` + work + ` \| ` + driver + ` \| ([0-9,]+) \|`).FindStringSubmatch(comparison)
		testkit.MustHold(t, m != nil, "performance.md has no figure of", work, "with", driver)
		n := testkit.Must(strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64))(t)
		return n
	}
	for _, row := range []struct {
		name, work string
		drivers    [][]string // of each column
	}{
		{"Enqueue", "create-bulk", [][]string{{"daybook-http"}, {"redis"}, {"river"}, {}, {"nats"}}},
		{"Claim 100", "drain-bulk", [][]string{{"daybook-runs"}, {"redis"}, {}, {}, {"nats"}}},
		{"Create one job", "create-one", [][]string{{"daybook-go", "daybook-http"}, {"redis"}, {"river"}, {}, {"nats"}}},
		{"Create, claim", "lifecycle-one", [][]string{{"daybook-stream"}, {"redis"}, {}, {}, {"nats"}}},
	} {
		line := regexp.MustCompile(`(?m)^\| ` + row.name + `.*¹ \|(.*)\|$`).FindStringSubmatch(string(readme))
		if line == nil {
			t.Errorf("the README has no row %q", row.name)
			continue
		}
		cells := strings.Split(line[1], "|")
		for i, drivers := range row.drivers {
			shown := regexp.MustCompile(`([0-9.]+) (million|thousand)/s`).FindAllStringSubmatch(cells[i], -1)
			if len(shown) != len(drivers) {
				t.Errorf("%s, column %d: %q", row.name, i+1, cells[i])
				continue
			}
			for k, driver := range drivers {
				unit := map[string]float64{"million": 1e6, "thousand": 1e3}[shown[k][2]]
				digits := 2
				if want := median(row.work, driver) / unit; want >= 100 {
					digits = 3
				}
				if want := strconv.FormatFloat(median(row.work, driver)/unit, 'g', digits, 64); want != shown[k][1] {
					t.Errorf("%s, column %d: %s, want %s", row.name, i+1, fmt.Sprint(shown[k][0]), want)
				}
			}
		}
	}
}
