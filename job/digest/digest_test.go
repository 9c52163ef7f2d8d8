package digest

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

const (
	serval     = "sha256-3liqNz2EfPx2zlWscP9ijO5U3GSLdPD+mUKCQkBd670=" // of a fixture of Serval
	servalHex  = "de58aa373d847cfc76ce55ac70ff628cee54dc648b74f0fe99428242405debbd"
	servalSHA1 = "c1ab010132ad2253c24a18cbc10dfcce0b728664"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"sha256:" + servalHex:                  "sha256:" + servalHex,
		servalHex:                              "sha256:" + servalHex,
		strings.ToUpper(servalHex):             "sha256:" + servalHex,
		"sha256:" + strings.ToUpper(servalHex): "sha256:" + servalHex,
		serval:                                 "sha256:" + servalHex,
		servalSHA1:                             servalSHA1,
		strings.ToUpper(servalSHA1):            servalSHA1,
	} {
		ref := testkit.Must(Parse(text))(t)
		testkit.Holds(t, ref.String() == want, "Parse(", text, "=", ref, "want", want)
	}
	for name, text := range map[string]string{
		"empty":                   "",
		"prefix only":             "sha256:",
		"63 digits":               servalHex[1:],
		"65 digits":               servalHex + "0",
		"no hex digit":            servalHex[:63] + "g",
		"a path":                  strings.Repeat("../", 21) + "x",
		"upper-case prefix":       "SHA256:" + servalHex,
		"two prefixes":            "sha256:sha256:" + servalHex[7:],
		"SHA-1 with a prefix":     "sha256:" + servalSHA1,
		"another algorithm":       "sha512:" + servalHex,
		"base64 without padding":  strings.TrimSuffix(serval, "="),
		"base64 with more bits":   strings.Replace(serval, "0=", "1=", 1),
		"base64 of URLs":          strings.Replace(serval, "+", "-", 1),
		"base64 with a line feed": serval[:20] + "\n" + serval[20:],
		"the same, same length":   serval[:20] + "\n" + serval[21:],
		"hex after sha256-":       "sha256-" + servalHex,
		"space before":            " " + servalHex,
		"two integrities":         serval + " " + serval,
		"very long":               strings.Repeat("a", 1<<20),
	} {
		ref, err := Parse(text)
		if ref != (Ref{}) || err == nil {
			t.Errorf("%s: Parse gave %v", name, ref)
			continue
		}
		testkit.Holds(t, errors.Is(err, Err), name, err)
		testkit.Holds(t, len(err.Error()) <= 400, name, "the error has", len(err.Error()), "bytes")
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", serval, servalHex, servalSHA1, "sha256:" + servalHex, "sha256-" + servalHex, "sha256:../../etc/passwd"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := Parse(text)
		if err != nil {
			testkit.Equal(t, ref, (Ref{}), text, "is refused and gives")
			return
		}
		canonical := ref.String()
		again, err := Parse(canonical)
		testkit.Holds(t, err == nil && again.String() == canonical, text, "gives", canonical, "which gives", again, err)
		lowered := strings.ToLower(text)
		if a := ref.SHA256; a != nil {
			testkit.Holds(t, lowered == canonical || "sha256:"+lowered == canonical || text == "sha256-"+base64.StdEncoding.EncodeToString(a[:]),
				text, "is no form of", canonical)
		} else if lowered != canonical {
			t.Errorf("%q is no form of %s", text, canonical)
		}
	})
}
