package job

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

func TestFields(t *testing.T) {
	var f fields
	f.text("client", "acme")
	f.text("empty", "")
	f.text("runner", "a b%c=d,e\nf\x7f\x00ü")
	f.int("zero", 0)
	f.int("n", -5)
	f.id("none", ID{})
	f.id("claim", NewID(1, 2, 0))
	f.texts("nothing", nil)
	f.texts("types", []string{"x", "y,z"})
	const want = "client=acme runner=a%20b%25c%3Dd%2Ce%0Af%7F%00ü n=-5 claim=00000000-0001-7000-8000-000000800000 types=x,y%2Cz"
	testkit.Equal(t, string(f), want)
}

func TestEscapes(t *testing.T) {
	var every []byte
	for b := range 256 {
		every = append(every, byte(b))
	}
	for _, text := range []string{"plain", string(every), "%", "%%25", "é", "\xff"} {
		escaped := string(AppendEscaped(nil, text))
		testkit.Holds(t, !strings.ContainsAny(escaped, " =,\n\r\t\x00\x7f"), text, "is escaped to", escaped)
		testkit.Equal(t, testkit.Must(Unescape(escaped))(t), text, "comes back as")
	}
}

func TestUnescapeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a raw space": "a b", "a raw space after an escape": "%20 ", "a raw newline": "a\n", "an escape cut off": "a%2", "a percent at the end": "a%",
		"an escape of what needs none": "%41", "lower case": "%0a", "not hex": "%zz", "a sign": "%+1",
	} {
		t.Run(name, func(t *testing.T) { got, err := Unescape(text); testkit.Holds(t, err != nil, text, "is", got) })
	}
}

func TestFieldReader(t *testing.T) {
	r := fieldReader{rest: "a=1 b=x%20y c=0184e410-a1eb-7000-8000-0000cb000001"}
	var keys []string
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		keys = append(keys, key)
		switch key {
		case "a":
			testkit.Equal(t, r.int(key, raw, 1, 1), 1, "a")
		case "b":
			testkit.Equal(t, r.text(raw), "x y", "b")
		case "c":
			testkit.Equal(t, r.id(raw), NewID(1670273606123, 812, 1), "c")
		}
	}
	testkit.Holds(t, r.err == nil && strings.Join(keys, "") == "abc", "keys", keys, r.err)
	for name, text := range map[string]string{
		"a space at the end": "a=1 ", "a space at the start": " a=1", "two spaces": "a=1  b=2", "no value": "a=", "no key": "=1", "no sign": "a", "twice": "a=1 b=2 a=3",
		"too many": func() string {
			var many []string
			for i := range maxFields + 1 {
				many = append(many, fmt.Sprintf("k%d=1", i))
			}
			return strings.Join(many, " ")
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			r := fieldReader{rest: text}
			for _, _, ok := r.next(); ok; _, _, ok = r.next() {
			}
			testkit.Holds(t, r.err != nil, text, "is read")
		})
	}
	for name, raw := range map[string]string{
		"a plus": "+1", "zeros": "01", "minus zero": "-0", "empty": "", "a point": "1.0", "hex": "0x1", "an underscore": "1_0",
		"below": "-1", "above": "11", "far above": "9223372036854775808",
	} {
		t.Run("number with "+name, func(t *testing.T) {
			r := fieldReader{}
			n := r.int("a", raw, 0, 10)
			testkit.Holds(t, r.err != nil, raw, "is", n)
		})
	}
}

func TestMeta(t *testing.T) {
	given := map[string]string{"b": "x,y=z %", "a": "", "c.d:e-f_g": "ü\x7f\n"}
	meta := mustMeta(given)
	got := maps.Collect(meta.All())
	testkit.Holds(t, maps.Equal(got, given), string(meta), "holds", got)
	value, ok := meta.Get("a")
	testkit.Holds(t, value == "" && ok, "a is", value, ok)
	value, ok = meta.Get("x")
	testkit.Holds(t, value == "" && !ok, "x is", value, ok)
	again, err := ParseMeta(string(meta))
	testkit.Holds(t, again == meta && err == nil, string(meta), "is read as", string(again), err)
	for _, text := range []string{
		"", "a", "b=1,a=2", "a=1,a=2", "a=1,", "a=%2c", "a=b=c", "a=%41", "a=%FF", "ü=1", "=1", metaOf(MaxMeta+1, 3, 1),
		metaOf(1, MaxMetaNameBytes+1, 1), metaOf(1, 3, MaxMetaValueBytes+1),
	} {
		meta, err := ParseMeta(text)
		testkit.Holds(t, err != nil, text, "is read as", string(meta))
	}
	testkit.Equal(t, mustMeta(nil), "", "nothing")
	for _, name := range []string{"", "a b", "a=b", "a,b", "ü"} {
		_, err := NewMeta(map[string]string{name: ""})
		testkit.Holds(t, err != nil, name, "is taken for a name")
	}
	testkit.Fails(NewMeta(map[string]string{"a": "\xff"}))(t)
}

func TestCheckTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	testkit.NoError(t, CheckTraceparent(good))
	for name, text := range map[string]string{
		"empty": "", "short": good[:54], "long": good + "0", "upper case": strings.ToUpper(good), "version": "01" + good[2:],
		"zero trace": "00-00000000000000000000000000000000-b7ad6b7169203331-01", "zero parent": "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"dash in trace": "00-0af7651916cd43dd-448eb211c80319cf-b7ad6b7169203331-01", "no dash": strings.Replace(good, "-01", "001", 1),
	} {
		testkit.Holds(t, CheckTraceparent(text) != nil, name, text, "is taken")
	}
}
