package job

import (
	"maps"
	"strings"
	"testing"
)

func TestMeta(t *testing.T) {
	given := map[string]string{"b": "x,y=z %", "a": "", "c.d:e-f_g": "ü\x7f\n"}
	meta := mustMeta(given)
	if got := maps.Collect(meta.All()); !maps.Equal(got, given) {
		t.Errorf("%q holds %q", string(meta), got)
	}
	if value, ok := meta.Get("a"); value != "" || !ok {
		t.Errorf("a is %q, %v", value, ok)
	}
	if value, ok := meta.Get("x"); value != "" || ok {
		t.Errorf("x is %q, %v", value, ok)
	}
	if again, err := ParseMeta(string(meta)); again != meta || err != nil {
		t.Errorf("%q is read as %q, %v", string(meta), string(again), err)
	}
	for _, text := range []string{
		"", "a", "b=1,a=2", "a=1,a=2", "a=1,", "a=%2c", "a=b=c", "a=%41", "a=%FF", "ü=1", "=1", metaOf(MaxMeta+1, 3, 1),
		metaOf(1, MaxMetaNameBytes+1, 1), metaOf(1, 3, MaxMetaValueBytes+1),
	} {
		if meta, err := ParseMeta(text); err == nil {
			t.Errorf("%q is read as %q", text, string(meta))
		}
	}
	if empty := mustMeta(nil); empty != "" {
		t.Errorf("nothing is %q", string(empty))
	}
	for _, name := range []string{"", "a b", "a=b", "a,b", "ü"} {
		if _, err := NewMeta(map[string]string{name: ""}); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
	if _, err := NewMeta(map[string]string{"a": "\xff"}); err == nil {
		t.Error("a value that is not UTF-8 is taken")
	}
}

func TestCheckTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if err := CheckTraceparent(good); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"empty": "", "short": good[:54], "long": good + "0", "upper case": strings.ToUpper(good), "version": "01" + good[2:],
		"zero trace": "00-00000000000000000000000000000000-b7ad6b7169203331-01", "zero parent": "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"dash in trace": "00-0af7651916cd43dd-448eb211c80319cf-b7ad6b7169203331-01", "no dash": strings.Replace(good, "-01", "001", 1),
	} {
		if err := CheckTraceparent(text); err == nil {
			t.Errorf("%s: %q is taken", name, text)
		}
	}
}
