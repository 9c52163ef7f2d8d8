package blob

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/digest"
)

// found returns everything that Find finds in a text.
func found(text string) (refs []string) {
	Find([]byte(text), func(r Ref) { refs = append(refs, r.String()) })
	return refs
}

func TestFind(t *testing.T) {
	a := addressOf(wilson)
	digits := hex.EncodeToString(a[:])
	sri := digest.Base64Prefix + base64.StdEncoding.EncodeToString(a[:])
	slashed := Address{0xff, 0xff, 0xff, 0xfe} // with slashes in base64
	sriSlashed := digest.Base64Prefix + base64.StdEncoding.EncodeToString(slashed[:])
	sha1 := strings.Repeat("68d5b573", 5)
	for text, want := range map[string]string{
		a.String():                          a.String(),
		digits:                              a.String(),
		strings.ToUpper(digits):             a.String(),
		`{"a":"` + a.String() + `"}`:        a.String(),
		sri:                                 a.String(),
		strings.TrimRight(sri, "=") + "%3D": a.String(),
		`"` + strings.ReplaceAll(sriSlashed, "/", `\/`) + `"`:                                     slashed.String(),
		"see " + strings.ReplaceAll(strings.ReplaceAll(sriSlashed, "/", "%2f"), "+", "%2B"):       slashed.String(),
		"see " + strings.ReplaceAll(strings.ReplaceAll(sriSlashed, "/", `\u002F`), "+", `\u002b`): slashed.String(),
		"x" + sha1 + "\n":         sha1,
		digits + " " + sha1:       a.String() + " " + sha1,
		sha1 + " " + digits:       sha1 + " " + a.String(),
		"":                        "",
		digits[:63]:               "",
		sha1[:39]:                 "",
		digits + digits:           "",
		digest.Base64Prefix:       "",
		digest.Base64Prefix + sri: a.String(),
		sri[:len(sri)-2] + "!":    "",
	} {
		testkit.Equal(t, strings.Join(found(text), " "), want, "in", text, "found")
	}
	refs := found("ab" + digits + "c")
	testkit.Holds(t, len(refs) == 4 && refs[2] == a.String(), "with digits around it, found", refs)
}

// FuzzFind: Find finds an address in any surrounding text.
func FuzzFind(f *testing.F) {
	f.Add("a", "b", uint64(1))
	f.Add(`\`, "=", uint64(2))
	f.Add("sha256-", "sha256:", uint64(3))
	f.Fuzz(func(t *testing.T, before, after string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, seed))
		var a Address
		for i := range a {
			a[i] = byte(r.Uint32())
		}
		text := a.String()
		switch seed % 3 {
		case 1:
			text = digest.Base64Prefix + base64.StdEncoding.EncodeToString(a[:])
			switch seed / 3 % 4 {
			case 1:
				text = strings.NewReplacer("+", `\u002B`, "/", `\/`, "=", `\u003d`).Replace(text)
			case 2:
				text = url.QueryEscape(text)
			}
		case 2:
			text = text[len(digest.HexPrefix):]
			if before != "" && isHex[before[len(before)-1]] {
				before += " "
			}
		}
		if seed%3 != 1 && after != "" && isHex[after[0]] {
			after = " " + after
		}
		hit := false
		Find([]byte(before+text+after), func(ref Ref) { hit = hit || ref.SHA256 != nil && *ref.SHA256 == a })
		testkit.Holds(t, hit, "did not find", a, "in", before+text+after)
	})
}
