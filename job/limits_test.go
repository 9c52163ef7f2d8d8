package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

func TestCheckName(t *testing.T) {
	long := strings.Repeat("x", MaxNameBytes)
	for _, name := range []string{"a", "default", "A-Z.a_z:0", "...", "-", long} {
		testkit.NoError(t, CheckName("client", name), name)
	}
	for _, name := range []string{"", ".", "..", "a b", "a/b", "ü", "a%", "a\n", "a\x00", long + "x"} {
		err := CheckName("client", name)
		testkit.Holds(t, err != nil && strings.HasPrefix(err.Error(), "client "), name, err)
	}
}

// TestWrongCharacter: the error for a refused name quotes the whole character, not its first byte.
func TestWrongCharacter(t *testing.T) {
	for name, want := range map[string]string{"möbel": `"ö"`, "a b": `" "`, "a\xffb": `"\xff"`, "a/b": `"/"`} {
		err := CheckName("client", name)
		testkit.Holds(t, err != nil && err.Error() == "client may hold only a-z A-Z 0-9 . _ : -, and not "+want, name, err)
		err = checkMetaName(name)
		testkit.Holds(t, err != nil && err.Error() == "a name in meta may hold only a-z A-Z 0-9 . _ : -, and not "+want, name, "in meta", err)
	}
}

func TestCheckText(t *testing.T) {
	for _, test := range []struct {
		text   string
		lo, hi int
		ok     bool
	}{
		{"", 0, 1, true}, {"", 1, 1, false}, {"a", 1, 1, true}, {"ab", 1, 1, false}, {"ü", 1, 1, false}, {"ü", 1, 2, true}, {"\xff", 1, 2, false},
	} {
		err := CheckText("step", test.text, test.lo, test.hi)
		testkit.Equal(t, err == nil, test.ok, test.text, "of", test.lo, "to", test.hi, err)
	}
	for n, ok := range map[int64]bool{0: false, 1: true, 9: true, 10: false} {
		err := CheckRange("max", n, 1, 9)
		testkit.Equal(t, err == nil, ok, n, "of 1 to 9", err)
	}
}

func metaOf(n, nameBytes, valueBytes int) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = fmt.Sprintf("%s%02d=%s", strings.Repeat("n", nameBytes-2), i, strings.Repeat("v", valueBytes))
	}
	return strings.Join(pairs, ",")
}

func keyLines(n int) (body string) {
	for i := range n {
		body += fmt.Sprintf("line=%d key=k\n", i)
	}
	return body
}

func onceOf(scopeBytes, keyBytes int) string {
	return " scope=" + strings.Repeat("s", scopeBytes) + " key=" + strings.Repeat("k", keyBytes) + " digest=" + strings.Repeat("00", 16)
}

// TestLimits decodes each bounded value at its limit and one past it.
func TestLimits(t *testing.T) {
	id := NewID(1, 2, 0).String()
	const create = "n=1 frame=none client=c type=t kind=nothing max_attempts=1 lease_ms=1000"
	number := func(verb, fields, key string, body string, lo, hi int64) []limitCase {
		text := func(n int64) string { return fmt.Sprintf("%s %s=%d", fields, key, n) }
		return []limitCase{
			{fmt.Sprintf("%s %s lowest", verb, key), verb, text(lo), body, true}, {fmt.Sprintf("%s %s below", verb, key), verb, text(lo - 1), body, false},
			{fmt.Sprintf("%s %s highest", verb, key), verb, text(hi), body, true}, {fmt.Sprintf("%s %s above", verb, key), verb, text(hi + 1), body, false},
		}
	}
	length := func(verb, fields, key, body string, hi int) []limitCase {
		return []limitCase{
			{fmt.Sprintf("%s %s longest", verb, key), verb, fields + " " + key + "=" + strings.Repeat("x", hi), body, true},
			{fmt.Sprintf("%s %s too long", verb, key), verb, fields + " " + key + "=" + strings.Repeat("x", hi+1), body, false},
		}
	}
	without := func(fields, key string) string {
		parts := strings.Split(fields, " ")
		kept := parts[:0]
		for _, p := range parts {
			if !strings.HasPrefix(p, key+"=") {
				kept = append(kept, p)
			}
		}
		return strings.Join(kept, " ")
	}
	list := func(n int, each string) string { return strings.TrimSuffix(strings.Repeat(each+",", n), ",") }
	outcome := "id=" + id + " code=error exit_code=500"
	inOutcome := func(cases []limitCase) []limitCase {
		for i := range cases {
			cases[i].fields, cases[i].body = "", cases[i].fields+"\n"
		}
		return cases
	}
	var cases []limitCase
	for _, more := range [][]limitCase{
		number("claim", "runner=r max_bytes=1", "max", "", 1, MaxClaimJobs),
		number("claim", "runner=r max=1", "max_bytes", "", 1, MaxClaimBytes),
		number("claim", "runner=r max=1 max_bytes=1", "lease_ms", "", MinLeaseMs, MaxLeaseMs),
		length("claim", "max=1 max_bytes=1", "runner", "", MaxRunnerBytes),
		length("claim", "runner=r max=1 max_bytes=1", "clients", "", MaxNameBytes),
		{
			{"claim clients most", "claim", "runner=r max=1 max_bytes=1 clients=" + list(MaxClaimNames, "c"), "", true},
			{"claim distinct keys most", "claim", "runner=r max=1 max_bytes=1 strategy=" + strings.Repeat("prefer_distinct:k/", MaxDistinctKeys) + "fair", "", true},
			{"claim distinct keys too many", "claim", "runner=r max=1 max_bytes=1 strategy=" + strings.Repeat("prefer_distinct:k/", MaxDistinctKeys+1) + "fair", "", false},
			{"claim distinct key longest", "claim", "runner=r max=1 max_bytes=1 strategy=prefer_distinct:" + strings.Repeat("k", MaxMetaNameBytes) + "/fair", "", true},
			{"claim distinct key too long", "claim", "runner=r max=1 max_bytes=1 strategy=prefer_distinct:" + strings.Repeat("k", MaxMetaNameBytes+1) + "/fair", "", false},
			{"claim clients too many", "claim", "runner=r max=1 max_bytes=1 clients=" + list(MaxClaimNames+1, "c"), "", false},
		},
		number("tickle", "runner=r", "lease_ms", "", MinLeaseMs, MaxLeaseMs),
		number("tickle", "runner=r", "progress", id+"\n", 0, ProgressUnit),
		length("tickle", "", "runner", "", MaxRunnerBytes),
		length("tickle", "runner=r", "step", id+"\n", MaxStepBytes),
		{
			{"tickle jobs most", "tickle", "", strings.Repeat(id+"\n", MaxTickleIDs), true},
			{"tickle jobs too many", "tickle", "", strings.Repeat(id+"\n", MaxTickleIDs+1), false},
		},
		length("complete", "", "runner", outcome+"\n", MaxRunnerBytes),
		inOutcome(number("complete", outcome, "delay_ms", "", 0, MaxDelayMs)),
		inOutcome(number("complete", outcome, "process_exit", "", -1<<31, 1<<32-1)),
		inOutcome(length("complete", outcome, "error", "", MaxErrorBytes)),
		inOutcome(length("complete", outcome, "output_addr", "", MaxAddrBytes)),
		inOutcome(length("complete", outcome, "log_addr", "", MaxAddrBytes)),
		inOutcome([]limitCase{
			{"exit_code lowest", "complete", "id=" + id + " code=error exit_code=500", "", true}, {"exit_code below", "complete", "id=" + id + " code=error exit_code=499", "", false},
			{"exit_code highest", "complete", "id=" + id + " code=error exit_code=599", "", true}, {"exit_code above", "complete", "id=" + id + " code=error exit_code=600", "", false},
			{"unget with exit_code", "complete", "id=" + id + " code=unget exit_code=200", "", false},
		}),
		{
			{"output longest", "complete", "", outcome + fmt.Sprintf(" output_kind=bytes output_bytes=%d\n", MaxOutputBytes) + strings.Repeat("x", MaxOutputBytes) + "\n", true},
			{"output for all longest", "complete", "claim=" + id + " all=true", "code=ok exit_code=200" + fmt.Sprintf(" output_kind=bytes output_bytes=%d\n", MaxForAllBytes) + strings.Repeat("x", MaxForAllBytes) + "\n", true},
			{"output for all too long", "complete", "claim=" + id + " all=true", "code=ok exit_code=200" + fmt.Sprintf(" output_kind=bytes output_bytes=%d\n", MaxForAllBytes+1) + strings.Repeat("x", MaxForAllBytes+1) + "\n", false},
			{"output too long", "complete", "", outcome + fmt.Sprintf(" output_kind=bytes output_bytes=%d\n", MaxOutputBytes+1) + strings.Repeat("x", MaxOutputBytes+1) + "\n", false},
			{"outcomes most", "complete", "", strings.Repeat(outcome+"\n", MaxOutcomes), true},
			{"outcomes too many", "complete", "", strings.Repeat(outcome+"\n", MaxOutcomes+1), false},
		},
		number("create", without(create, "n"), "n", "", 1, MaxLines),
		number("create", create, "longest", "", 0, MaxPayloadBytes),
		number("create", create, "priority", "", 0, MaxPriority),
		number("create", create, "run_at", "", 0, MaxTimeMs),
		number("create", create, "retention_ms", "", 0, MaxDelayMs),
		number("create", without(create, "max_attempts"), "max_attempts", "", 1, MaxAttempts),
		number("create", without(create, "lease_ms"), "lease_ms", "", MinLeaseMs, MaxLeaseMs),
		length("create", without(create, "client"), "client", "", MaxNameBytes),
		length("create", without(create, "type"), "type", "", MaxNameBytes),
		{
			{"backoff lowest", "create", create + " backoff=0:1000:0", "", true},
			{"backoff highest", "create", create + fmt.Sprintf(" backoff=%d:%d:%d", int64(MaxDelayMs), MaxFactorMilli, int64(MaxDelayMs)), "", true},
			{"backoff initial above", "create", create + fmt.Sprintf(" backoff=%d:1000:0", int64(MaxDelayMs)+1), "", false},
			{"backoff factor below", "create", create + " backoff=0:999:0", "", false},
			{"backoff factor above", "create", create + fmt.Sprintf(" backoff=0:%d:0", MaxFactorMilli+1), "", false},
			{"backoff max above", "create", create + fmt.Sprintf(" backoff=0:1000:%d", int64(MaxDelayMs)+1), "", false},
			{"groups most", "create", fmt.Sprintf("n=%d frame=none groups=%d", MaxGroups, MaxGroups), strings.Repeat(create+"\n", MaxGroups), false}, // frame is not a group's
			{"groups most", "create", fmt.Sprintf("n=%d frame=none groups=%d", MaxGroups, MaxGroups), strings.Repeat(without(create, "frame")+"\n", MaxGroups), true},
			{"groups too many", "create", fmt.Sprintf("n=%d frame=none groups=%d", MaxGroups+1, MaxGroups+1), strings.Repeat(without(create, "frame")+"\n", MaxGroups+1), false},
			{"groups of too many lines", "create", fmt.Sprintf("n=%d frame=none groups=2", MaxLines), strings.Repeat(strings.Replace(without(create, "frame"), "n=1", fmt.Sprintf("n=%d", MaxLines), 1)+"\n", 2), false},
		},
		number("create", create, "expires_at", "", 1, MaxTimeMs),
		number("create", create, "timeout_ms", "", MinTimeoutMs, MaxTimeoutMs),
		{
			{"meta most", "create", create + " meta=" + metaOf(MaxMeta, MaxMetaNameBytes, MaxMetaValueBytes), "", true},
			{"meta too many", "create", create + " meta=" + metaOf(MaxMeta+1, 3, 1), "", false},
			{"meta name too long", "create", create + " meta=" + metaOf(1, MaxMetaNameBytes+1, 1), "", false},
			{"meta value too long", "create", create + " meta=" + metaOf(1, 3, MaxMetaValueBytes+1), "", false},
			{"unique key longest", "create", create + " unique=1", "line=0 key=" + strings.Repeat("k", MaxKeyBytes) + "\n", true},
			{"unique key too long", "create", create + " unique=1", "line=0 key=" + strings.Repeat("k", MaxKeyBytes+1) + "\n", false},
			{"unique keys most", "create", strings.Replace(create, "n=1", "n=1001", 1) + fmt.Sprintf(" unique=%d", MaxUniqueKeys), keyLines(MaxUniqueKeys), true},
			{"unique keys too many", "create", strings.Replace(create, "n=1", "n=1001", 1) + fmt.Sprintf(" unique=%d", MaxUniqueKeys+1), keyLines(MaxUniqueKeys + 1), false},
			{"key longest", "create", create + onceOf(MaxScopeBytes, MaxKeyBytes), "", true},
			{"key too long", "create", create + onceOf(MaxScopeBytes, MaxKeyBytes+1), "", false},
			{"scope too long", "create", create + onceOf(MaxScopeBytes+1, MaxKeyBytes), "", false},
		},
		number("claim", "runner=r max=1 max_bytes=1 number=1 session="+id, "slot", "", 1, MaxSlots-1),
		{
			{"number lowest", "claim", "runner=r max=1 max_bytes=1 session=" + id + " number=1", "", true},
			{"number below", "claim", "runner=r max=1 max_bytes=1 session=" + id + " number=0", "", false},
			{"number highest", "claim", "runner=r max=1 max_bytes=1 session=" + id + " number=9223372036854775807", "", true},
			{"number above", "claim", "runner=r max=1 max_bytes=1 session=" + id + " number=9223372036854775808", "", false},
		},
		number("complete", "number=1 session="+id, "part", outcome+"\n", 1, MaxParts-1),
		length("opensession", "", "runner", "", MaxRunnerBytes),
		number("patch", "id="+id, "priority", "", 0, MaxPriority),
		number("patch", "id="+id, "run_at", "", 0, MaxTimeMs),
		number("patch", "id="+id, "max_attempts", "", 1, MaxAttempts),
		number("level", "", "level", "", 1, 1<<31-1),
		number("history", "age_ms=3600000", "bytes", "", MinHistoryBytes, MaxHistoryBytes),
		number("history", "bytes=1048576", "age_ms", "", MinHistoryMs, MaxDelayMs),
		number("history", "", "before", "", 1, 1<<63-1),
	} {
		cases = append(cases, more...)
	}
	for _, test := range cases {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			_, err := Decode(test.verb, []byte(strings.TrimSpace(test.fields)), []byte(strings.TrimLeft(test.body, " ")))
			testkit.Equal(t, err == nil, test.ok, err)
		})
	}
}

type limitCase struct {
	name, verb, fields, body string
	ok                       bool
}
