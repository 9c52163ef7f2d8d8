package report

import "testing"

func TestReplace(t *testing.T) {
	page := "# Page\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\nend\n"
	got, err := replace([]byte(page), "b", "\nnew\n\n")
	want := "# Page\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\nnew\n<!-- /b -->\nend\n"
	if err != nil || string(got) != want {
		t.Fatalf("%q, %v", got, err)
	}
	again, err := replace(got, "b", "new")
	if err != nil || string(again) != want {
		t.Fatalf("written twice: %q, %v", again, err)
	}
	for name, page := range map[string]string{
		"none":     "# Page\n",
		"open":     "<!-- b -->\n",
		"reversed": "<!-- /b -->\n<!-- b -->\n",
		"twice":    "<!-- b -->\n<!-- /b -->\n<!-- b -->\n<!-- /b -->\n",
	} {
		if got, err := replace([]byte(page), "b", "new"); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}
