package job

import (
	"maps"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

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
