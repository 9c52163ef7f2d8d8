package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestFreshKey: a file may have a token, and is read again when it changes. A file that has neither, or is away, changes nothing.
func TestFreshKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		testkit.NoError(t, os.WriteFile(path+".new", []byte(text+"\n"), 0o600))
		testkit.NoError(t, os.Rename(path+".new", path))
	}
	write("eyJ.one.sig")
	a := &ServerAddress{text: DefaultServer, keyFile: path}
	o := testkit.Must(a.Options(client.Options{}))(t)
	testkit.Equal(t, o.Key, "eyJ.one.sig")
	has := func(want string) { t.Helper(); testkit.Equal(t, testkit.Must(o.KeySource(t.Context()))(t), want) }
	has("eyJ.one.sig")
	write("eyJ.two.sig")
	has("eyJ.two.sig")
	has("eyJ.two.sig")
	write("half of a tok")
	has("eyJ.two.sig")
	key := job.KeyText("shop", [job.SecretBytes]byte{1})
	write(key)
	has(key)
	testkit.NoError(t, os.Remove(path))
	has(key)
	for _, wrong := range []string{"a.b", "a.b.c.d", "a. b.c", "..", "a.b.c\nd", "dbk_a"} {
		testkit.Holds(t, checkKey(wrong) != nil, wrong, "is taken for a key")
	}
}
