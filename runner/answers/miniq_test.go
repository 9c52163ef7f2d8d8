package answers

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// The behaviour of miniq's HTTP runner, as observed:
//
//   - The text is trimmed and split at each newline. Empty lines are skipped, and lines that begin with # are comments.
//     The i-th line that remains answers the i-th job.
//   - The exit code is the integer at the beginning of the line.
//   - A missing line is 500 NO_RESPONSE.
//   - A line that does not begin with a number, or begins with a negative one, is 500 INVALID_RESPONSE. So is every
//     later line, and jobs past the end are NO_RESPONSE.
//   - 200–299 and 400–499 are final; everything else is retried.

// TestMiniqSample reads the sample whose result was verified with miniq.
func TestMiniqSample(t *testing.T) {
	text := "# log\n200 ok\n\n#J: …\n404 nope\n503\nbad\n200"
	want := []string{"200 ok", "404 nope", "503", "500 INVALID_RESPONSE", "500 INVALID_RESPONSE", "500 NO_RESPONSE"}
	testkit.EqualSlices(t, short(all(t, 6, text)), want)
}

// miniq classifies the answers of n jobs as described above. It shares no code with Reader.
func miniq(n int, text string) (results []string) {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	trusted := true
	for i := range n {
		if i >= len(lines) {
			results = append(results, "500 NO_RESPONSE again")
			continue
		}
		digits := regexp.MustCompile(`^[0-9]+`).FindString(lines[i])
		trusted = trusted && digits != ""
		if !trusted {
			results = append(results, "500 INVALID_RESPONSE again")
			continue
		}
		code, err := strconv.Atoi(digits)
		if err != nil {
			panic(err)
		}
		final := code >= 200 && code <= 299 || code >= 400 && code <= 499
		results = append(results, fmt.Sprintf("%d %s", code, map[bool]string{true: "final", false: "again"}[final]))
	}
	return results
}

// TestMiniqAnswers compares 400 generated batch answers with miniq's behaviour.
func TestMiniqAnswers(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, seed))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	seen := map[string]int{}
	for i := range 400 {
		jobs := 1 + random.IntN(20)
		var text strings.Builder
		for range jobs + random.IntN(5) - 3 {
			for range random.IntN(3) {
				text.WriteString(pick("\n", "# a comment\n", "#J: mail|to: ada\n", "#J: no bar\n", "#200\n", "#\n"))
			}
			switch random.IntN(25) {
			case 0:
				text.WriteString(pick("bad", "ok 200", "-1", "-200 no", "{\"status\":200}", "NaN", ".5", "ENOENT"))
			default:
				code := pick("100", "102", "200", "201", "299", "302", "399", "400", "404", "499", "500", "503", "599", "600", "999", "0", "7", "99", "123456")
				text.WriteString(code + pick("", "", " ok", " with more text", ",x", "abc", "\t1"))
			}
			text.WriteString("\n")
		}
		var got []string
		for _, a := range all(t, jobs, text.String()) {
			end := "again"
			if e := a.End(1 << 10); e.Code == "ok" || e.Code == "failed" {
				end = "final"
			}
			code := fmt.Sprint(a.ExitCode)
			if a.Code != "" {
				code += " " + a.Code
				seen[a.Code]++
			}
			seen[end]++
			seen["created"] += len(a.Then)
			got = append(got, code+" "+end)
		}
		want := miniq(jobs, text.String())
		testkit.EqualSlices(t, got, want, "seed", seed, "answer", i, "to", jobs, "jobs", text.String())
	}
	for _, what := range []string{"final", "again", NoResponse, InvalidResponse, "created"} {
		testkit.Holds(t, seen[what] >= 50, "only", seen[what], "times", what, "in 400 answers")
	}
}
