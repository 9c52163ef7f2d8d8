package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// TestLoginNameOf: a login has the SHA-256 of its text as its name, and finding it out takes no allocation.
func TestLoginNameOf(t *testing.T) {
	text := LoginText([SecretBytes]byte{1, 31: 2})
	want := sha256.Sum256([]byte(text))
	name, ok := LoginNameOf(text)
	if !ok || string(name[:]) != hex.EncodeToString(want[:]) || CheckName("name", string(name[:])) != nil {
		t.Errorf("the name of %s is %s, %v", text, name, ok)
	}
	for _, wrong := range []string{"", text[1:], text + "0"} {
		if _, ok := LoginNameOf(wrong); ok {
			t.Errorf("%q is taken for the text of a login", wrong)
		}
	}
	if n := testing.AllocsPerRun(100, func() { LoginNameOf(text) }); n != 0 {
		t.Errorf("the name of a login takes %v allocations", n)
	}
}

// TestLoginDocument: a document reads back as the login, has one form only, and fits into its limit.
func TestLoginDocument(t *testing.T) {
	long := strings.Repeat("n", MaxNameBytes)
	for _, l := range []Login{
		{Name: "a", By: "boss", Until: 5, KeySum: KeySum{1}},
		{Name: "b", By: "oidc/" + strings.Repeat(" ", MaxNameBytes-5), Until: MaxTimeMs, Issuer: long, Rule: long},
	} {
		if got, err := DecodeLogin(l.Name, l.Document()); err != nil || got != l {
			t.Errorf("%s reads back as %+v, %v", l.Document(), got, err)
		}
		if n := len(l.Document()); n > MaxLoginBytes {
			t.Errorf("a login takes %d bytes", n)
		}
	}
	sum := " key_sha256=" + KeySum{1}.String()
	for _, wrong := range []string{
		"", "by=a" + sum, "until=5" + sum, "by=a until=5", "by=a until=5" + sum + " issuer=a rule=b", "by=a until=5 issuer=a", "by=a until=5 rule=b", "until=5 by=a" + sum,
		"by=a until=0" + sum, "by=a until=5 key_sha256=00", "by=a until=5" + sum + " more=1", "by=a until=5 issuer=a%20b rule=c", "by=" + long + "n until=5" + sum,
	} {
		if l, err := DecodeLogin("a", []byte(wrong)); err == nil {
			t.Errorf("%q is taken for the login %+v", wrong, l)
		}
	}
	l := Login{Until: 5}
	if l.Ended(4) || !l.Ended(5) {
		t.Error("a login until 5 does not end at 5")
	}
}
