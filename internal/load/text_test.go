package load

import "testing"

func TestText(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 999: "999", 1234567: "1,230,000", 12345: "12,300"} {
		if got := Thousands(x); got != want {
			t.Errorf("%v: %s", x, got)
		}
	}
	for ms, want := range map[float64]string{0.123: "0.12 ms", 1.26: "1.3 ms", 12.6: "13 ms"} {
		if got := Millis(ms); got != want {
			t.Errorf("%v: %s", ms, got)
		}
	}
}
