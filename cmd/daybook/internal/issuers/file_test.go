package issuers

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/oidc/oidctest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

const whole = `# people and programs
[[issuer]]
name = "corp"
url = "https://login.example/realms/a"
audience = "daybook"
client-id = "daybook-web"
client-secret-file = "secret"
redirect-url = "https://queue.example/login/callback"
scopes = ["openid", "groups"]

[[issuer.rule]]
name = "operators"
claims = { groups = "ops", level = 7, staff = true }
roles = ["operator", "backup"]

[[issuer.rule]]
name = "rest"
claims.sub = "anna"
roles = ["reader"]

[[issuer]]
name = "k8s"
url = "https://kubernetes.default.svc"
audience = "daybook"
jwks-file = "keys.json"

[[issuer.rule]]
name = "mailer"
roles = ["producer"]

[issuer.rule.claims]
sub = "system:serviceaccount:prod:mailer"
`

// written writes the file with all that it names, and returns its path.
func written(t *testing.T, text string) string {
	dir := t.TempDir()
	path := filepath.Join(dir, "oidc.toml")
	for name, text := range map[string]string{"oidc.toml": text, "secret": "s3cret\n", "two-lines": "a\nb\n", "empty": "\n", "keys.json": string(oidctest.New(t).Keys()), "bad.json": `{"keys":[]}`} {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return path
}

// TestRead: a file says whose tokens count, and for what.
func TestRead(t *testing.T) {
	list := testkit.Must(Read(written(t, whole)))(t)
	testkit.Equal(t, len(list), 2)
	corp, k8s := list[0], list[1]
	testkit.Equal(t, corp.Name+" "+corp.URL+" "+corp.Audience, "corp https://login.example/realms/a daybook")
	testkit.Equal(t, corp.Login.ClientID+" "+corp.Login.Secret+" "+strings.Join(corp.Login.Scopes, ","), "daybook-web s3cret openid,groups")
	testkit.Equal(t, len(corp.Rules), 2)
	testkit.Equal(t, corp.Rules[0].Key.Roles, job.RolesOf(job.RoleOperator, job.RoleBackup))
	testkit.Holds(t, corp.Rules[0].Claims["groups"] == "ops" && corp.Rules[0].Claims["level"] == int64(7) && corp.Rules[0].Claims["staff"] == true, corp.Rules[0].Claims)
	scoped := testkit.Must(Read(written(t, strings.Replace(whole, `roles = ["producer"]`, "roles = [\"producer\"]\nclients = [\"shop\", \"acme\"]\ntypes = [\"mail\"]", 1))))(t)[1].Rules[0].Key
	testkit.Equal(t, strings.Join(scoped.Clients, ",")+" "+strings.Join(scoped.Types, ",")+" "+scoped.RunnerPrefix, "acme,shop mail mailer:")
	hidden := testkit.Must(Read(written(t, strings.Replace(whole, `roles = ["reader"]`, "roles = [\"reader\"]\nredact = [\"card\"]", 1))))(t)[0].Rules[1].Key
	testkit.Equal(t, strings.Join(hidden.Redact, ","), "card")
	testkit.Equal(t, corp.Rules[1].Claims["sub"], any("anna"))
	testkit.Holds(t, corp.Keys == nil && k8s.Keys != nil && k8s.Login == nil, "keys and log-ins")
	testkit.Equal(t, k8s.Rules[0].Claims["sub"], any("system:serviceaccount:prod:mailer"))
	defaults := testkit.Must(Read(written(t, strings.Replace(whole, `scopes = ["openid", "groups"]`, "", 1))))(t)
	testkit.Equal(t, strings.Join(defaults[0].Login.Scopes, ","), "openid")
}

// TestReadRefuses: a file that cannot be used is refused with the line and the reason, and without the secret.
func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ old, next, want string }{
		{whole, "", ": it must have 1 to 20 tables [[issuer]]"},
		{`name = "corp"`, `name = "co rp"`, ":3: name must have"},
		{`name = "corp"`, `name = "` + strings.Repeat("a", 33) + `"`, ":3: name must have 1 to 32"},
		{`name = "corp"`, ``, ":2: name must have"},
		{`name = "k8s"`, `name = "corp"`, ":22: two issuers have the name corp"},
		{`https://kubernetes.default.svc`, `https://login.example/realms/a`, ":23: two issuers have the url"},
		{`url = "https://login.example/realms/a"`, `url = "http://login.example/realms/a"`, ":4: url is"},
		{`url = "https://login.example/realms/a"`, ``, ":2: url is missing"},
		{`audience = "daybook"`, ``, ":2: audience is missing"},
		{`audience = "daybook"`, `audience = 7`, ":5: "},
		{`audience`, `audiences`, ":5: issuer.audiences is not known"},
		{`"secret"`, `"nothing"`, ":7: client-secret-file: "},
		{`"secret"`, `"two-lines"`, ":7: client-secret-file: "},
		{`"secret"`, `"empty"`, ":7: client-secret-file: "},
		{`client-id = "daybook-web"`, ``, " needs a client-id"},
		{`/login/callback`, `/`, ":8: redirect-url must be"},
		{`https://queue.example/login`, `http://queue.example/login`, ":8: redirect-url must be"},
		{`"openid", "groups"`, `"groups"`, ":9: scopes must have openid"},
		{`name = "operators"`, `name = "rest"`, ":17: two rules have the name rest"},
		{`roles = ["reader"]`, "roles = [\"reader\"]\nclients = [\"acme\"]\n[[issuer.rule]]\nname = \"x\"\nclaims.sub = \"x\"\nroles = [\"reader\"]\nclients = [\"b\"]\nrunner-prefix = \"rest:b\"", ":26: the rule rest is for other clients"},
		{`name = "operators"`, `name = ""`, ":12: name must have"},
		{`{ groups = "ops", level = 7, staff = true }`, `{}`, ":13: claims must have"},
		{`level = 7`, `level = 7.5`, ":13: claim level must be"},
		{`level = 7`, `level = [7]`, ":13: claim level must be"},
		{`"backup"`, `"root"`, `:14: role "root" is none of`},
		{`roles = ["reader"]`, "roles = [\"admin\"]\nclients = [\"a\"]", ":19: a key for some clients"},
		{`roles = ["reader"]`, "roles = [\"reader\"]\nclients = []", ":19: clients is empty"},
		{`roles = ["reader"]`, "roles = [\"producer\"]\nhide-payloads = true", ":19: payloads can be hidden only"},
		{`roles = ["reader"]`, `roles = []`, ":19: a rule needs at least one role"},
		{`roles = ["reader"]`, ``, ":16: a rule needs at least one role"},
		{`"keys.json"`, `"bad.json"`, ":25: jwks-file: the key set has no public key"},
		{`"keys.json"`, `"none.json"`, ":25: jwks-file: open "},
		{`jwks-file = "keys.json"`, "jwks-file = \"keys.json\"\nclient-id = \"x\"", ":26: people cannot log in at an issuer with a jwks-file"},
		{`jwks-file = "keys.json"`, "client-id = \"x\"\nredirect-url = \"https://queue.example/login/callback\"", ":25: people can log in at one issuer only"},
		{`[[issuer.rule]]`, `[[issuer.rules]]`, ":11: "},
		{`[[issuer]]`, `[[issuer`, ":2: "},
	} {
		text := strings.Replace(whole, c.old, c.next, 1)
		path := written(t, text)
		_, err := Read(path)
		testkit.Holds(t, err != nil, c.next, "is accepted")
		testkit.Failed(t, err, "--oidc-file "+path+":", c.want)
		testkit.Holds(t, !strings.Contains(err.Error(), "s3cret"), err)
	}
	testkit.Fails(Read(filepath.Join(t.TempDir(), "none")))(t, os.ErrNotExist, "--oidc-file")
	testkit.Fails(Read(written(t, strings.Repeat("#", maxFile+1))))(t, "larger than")
	if runtime.GOOS == "windows" {
		return
	}
	path := written(t, whole)
	testkit.NoError(t, os.Chmod(filepath.Join(filepath.Dir(path), "secret"), 0o644))
	testkit.Fails(Read(path))(t, ":7: client-secret-file: ", "chmod o=")
}

// TestPage: the example of the page can be used.
func TestPage(t *testing.T) {
	page := string(testkit.Must(os.ReadFile("../../../../docs/how-to/oidc.md"))(t))
	_, rest, _ := strings.Cut(page, "```toml\n")
	text, _, _ := strings.Cut(rest, "```")
	path := written(t, strings.Replace(strings.Replace(text, `"oidc-secret"`, `"secret"`, 1), `"/etc/daybook/k8s-keys.json"`, `"keys.json"`, 1))
	list := testkit.Must(Read(path))(t)
	testkit.Equal(t, len(list), 2)
	testkit.Equal(t, len(list[0].Rules)+len(list[1].Rules), 4)
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("[[issuer]]\nname='a'\n[issuer.x]\n[[issuer.rule.x]]\n")
	f.Add("issuer = [{name = 'a', rule = [{}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		r := &reader{dir: t.TempDir()}
		if list, err := r.parse([]byte(text)); (err == nil) != (len(list) > 0) {
			t.Errorf("%q gives %d issuers and %v", text, len(list), err)
		}
	})
}
