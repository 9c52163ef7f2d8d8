package job

import (
	"crypto/sha256"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestKeyText: the text of a key has its name, and no other text with a letter changed, dropped or doubled is a key.
func TestKeyText(t *testing.T) {
	for _, name := range []string{"a", "acme.worker_1", strings.Repeat("n", MaxNameBytes)} {
		text := KeyText(name, [32]byte{1, 2, 31: 3})
		got, sum, err := ParseKeyText(text)
		if err != nil || got != name || sum != KeySum(sha256.Sum256([]byte(text))) {
			t.Fatalf("%s: name %q, sum %v, %v", text, got, sum, err)
		}
		for i := range len(text) {
			for _, wrong := range []string{text[:i] + text[i+1:], text[:i] + text[i:i+1] + text[i:], text[:i] + "x" + text[i+1:], text[:i] + "Q" + text[i+1:]} {
				if _, _, err := ParseKeyText(wrong); wrong != text && err == nil {
					t.Errorf("%s is taken for a key", wrong)
				}
			}
		}
	}
	for _, wrong := range []string{"", "dbk_", "dbk__", "dbk_a", "dbk_a_", KeyText("", [32]byte{}), KeyText("a b", [32]byte{}), KeyText("..", [32]byte{})} {
		if _, _, err := ParseKeyText(wrong); err != ErrKeyText {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	text := KeyText("acme", [32]byte{})
	if n := testing.AllocsPerRun(100, func() { _, _, _ = ParseKeyText(text) }); n != 0 {
		t.Errorf("reading a key takes %v allocations", n)
	}
}

// TestKeyDocument: a document reads back as the key, and has one form only.
func TestKeyDocument(t *testing.T) {
	keys := []Key{
		{Actor: Actor{Name: "a"}, Roles: RolesOf(RoleAdmin), Generation: 1, Sum: KeySum{1}},
		{Actor: Actor{"c", Scope{[]string{"acme", "b"}, nil}}, Roles: RolesOf(RoleWorker), RunnerPrefix: "acme-", Generation: 1, Sum: KeySum{1}},
		{Actor: Actor{"d", Scope{nil, []string{"resize"}}}, Roles: RolesOf(RoleReader), RunnerPrefix: "%", Redact: []string{"card", "na,me"}, Generation: 1, Sum: KeySum{1}},
		{Actor: Actor{Name: "e"}, Roles: RolesOf(RoleReader), HidePayloads: true, Generation: 1, Sum: KeySum{1}},
		{Actor: Actor{Name: "f"}, Roles: RolesOf(RoleProducer), Rates: &Rates{Creates: 1, Bytes: MinBytesRate, ParkedClaims: MaxRate}, Generation: 1, Sum: KeySum{1}},
		{Actor: Actor{Name: "g"}, Roles: RolesOf(RoleProducer), Rates: &Rates{Claims: 2, Reads: 3, Streams: 4}, Generation: 1, Sum: KeySum{1}},
		{Actor: Actor{Name: "b"}, Roles: RolesOf(RoleProducer, RoleWorker, RoleReader), ExpiresAt: 5, Generation: 3, Sum: KeySum{1}, Old: &OldSecret{KeySum{2}, 9}},
	}
	for _, k := range keys {
		if got, err := DecodeKey(k.Name, k.Document()); err != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("%s reads back as %+v, %v", k.Document(), got, err)
		}
	}
	sum := " sha256=" + KeySum{1}.String()
	for _, wrong := range []string{
		"", "roles=admin generation=1", "generation=1" + sum, "roles=admin" + sum, "roles=root generation=1" + sum, "roles=worker,producer generation=1" + sum,
		"roles=admin generation=1 sha256=00", "roles=admin generation=1" + sum + " old_until=5", "roles=admin generation=1" + sum + " more=1",
		"roles=admin clients=a runner_prefix=a generation=1" + sum, "roles=worker clients=a generation=1" + sum, "roles=worker clients=b,a runner_prefix=a generation=1" + sum,
		"roles=worker clients=a,a runner_prefix=a generation=1" + sum, "roles=worker clients=.. runner_prefix=a generation=1" + sum, "roles=worker hide_payloads=true generation=1" + sum,
		"roles=reader hide_payloads=true redact=a generation=1" + sum, "roles=reader redact=b,a generation=1" + sum, "roles=reader hide_payloads=false generation=1" + sum,
		"roles=admin rate_creates=0 generation=1" + sum, "roles=admin rate_bytes=1023 generation=1" + sum, "roles=admin rate_reads=1000000000001 generation=1" + sum,
		"roles=admin rate_more=1 generation=1" + sum, "roles=admin creates=1 generation=1" + sum, "roles=admin rate_reads=1 rate_creates=1 generation=1" + sum,
		"roles=admin generation=1 sha256=" + strings.Repeat("0", 64), "roles=admin,admin generation=1" + sum,
	} {
		if k, err := DecodeKey("a", []byte(wrong)); err == nil {
			t.Errorf("%q is taken for the key %+v", wrong, k)
		}
	}
}

// TestKeyMatches: the newest secret is good, and the one before it for a while.
func TestKeyMatches(t *testing.T) {
	now, old, none := KeySum{1}, KeySum{2}, KeySum{}
	k := Key{Sum: now, Old: &OldSecret{old, 10}, ExpiresAt: 20}
	plain := Key{Sum: now}
	if !k.Matches(&now, 50) || !k.Matches(&old, 9) || k.Matches(&old, 10) || k.Matches(&none, 5) || plain.Matches(&none, 0) || plain.Matches(&old, 0) {
		t.Error("a wrong secret is good, or a right one is not")
	}
	if k.Expired(19) || !k.Expired(20) || plain.Expired(MaxTimeMs) {
		t.Error("a key expires at another time")
	}
}

func TestRoles(t *testing.T) {
	all := Roles(0)
	for r := RoleAdmin; r < numRoles; r++ {
		if got, err := ParseRole(r.String()); err != nil || got != r {
			t.Errorf("%v reads back as %v, %v", r, got, err)
		}
		all |= RolesOf(r)
	}
	if _, err := ParseRole(""); err == nil || !slices.Equal(all.Names(), roleNames[1:]) || RolesOf(RoleWorker).Has(RolesOf(RoleReader, RoleAdmin)) {
		t.Error("a set of roles is wrong")
	}
}

func BenchmarkParseKeyText(b *testing.B) {
	text := KeyText("acme.producer", [SecretBytes]byte{1})
	key := Key{Roles: RolesOf(RoleProducer), Sum: KeySum(sha256.Sum256([]byte(text)))}
	b.ReportAllocs()
	for b.Loop() {
		if _, sum, err := ParseKeyText(text); err != nil || !key.Matches(&sum, 1) {
			b.Fatal(err)
		}
	}
}
