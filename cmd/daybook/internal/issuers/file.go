package issuers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/daybookq/daybook/api/oidc"
	"github.com/daybookq/daybook/cmd/daybook/internal/certificates"
	"github.com/daybookq/daybook/job"
)

// The file in TOML:
//
//	[[issuer]]
//	name = "corp"
//	url = "https://login.example"
//	audience = "daybook"
//	client-id = "daybook-web"
//	client-secret-file = "oidc-secret"
//	redirect-url = "https://queue.example/login/callback"
//
//	[[issuer.rule]]
//	name = "operators"
//	claims = { groups = "daybook-operators" }
//	roles = ["operator"]
type file struct {
	Issuers []issuerTable `toml:"issuer"`
}

type issuerTable struct {
	Name        string      `toml:"name"`
	URL         string      `toml:"url"`
	JWKSFile    string      `toml:"jwks-file"`
	Audience    string      `toml:"audience"`
	ClientID    string      `toml:"client-id"`
	SecretFile  string      `toml:"client-secret-file"`
	RedirectURL string      `toml:"redirect-url"`
	Scopes      []string    `toml:"scopes"`
	Rules       []ruleTable `toml:"rule"`
}

type ruleTable struct {
	Name   string         `toml:"name"`
	Claims map[string]any `toml:"claims"`
	Roles  []string       `toml:"roles"`

	Clients      []string `toml:"clients"`
	Types        []string `toml:"types"`
	RunnerPrefix string   `toml:"runner-prefix"`
	HidePayloads bool     `toml:"hide-payloads"`
	Redact       []string `toml:"redact"`
}

// Bounds of the file. A larger one is no list of issuers.
const (
	maxFile    = 1 << 20
	maxIssuers = 20
	maxRules   = 1000
	maxClaims  = 20
)

// Read reads the file at path, and the files that it names, which are beside it unless their paths are absolute. Errors have the
// file and the line.
func Read(path string) ([]oidc.Issuer, error) {
	text, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("--oidc-file: %w", err)
	}
	r := &reader{dir: filepath.Dir(path)}
	list, err := r.parse(text)
	if err != nil {
		return nil, fmt.Errorf("--oidc-file %s%w", path, err)
	}
	return list, nil
}

// read reads a file of at most maxFile bytes.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, err
}

// reader reads the text of the file.
type reader struct {
	dir   string
	lines map[string]int
	rules []*oidc.Rule // of all issuers so far
}

// wrong returns an error at the line of a key, or of the table that lacks it.
func (r *reader) wrong(err error, keys ...string) error {
	for ; len(keys) > 0; keys = keys[:len(keys)-1] {
		if line := r.lines[strings.Join(keys, "\x00")]; line > 0 {
			return fmt.Errorf(":%d: %w", line, err)
		}
	}
	return fmt.Errorf(": %w", err)
}

func (r *reader) parse(text []byte) (list []oidc.Issuer, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	var f file
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, atLine(err)
	}
	r.lines = linesOf(text)
	if len(f.Issuers) == 0 || len(f.Issuers) > maxIssuers {
		return nil, fmt.Errorf(": it must have 1 to %d tables [[issuer]], not %d", maxIssuers, len(f.Issuers))
	}
	names, urls, people := map[string]bool{}, map[string]bool{}, false
	for i := range f.Issuers {
		t, at := &f.Issuers[i], item("issuer", i)
		issuer, err := r.issuer(t, at)
		switch {
		case err != nil:
			return nil, err
		case names[t.Name]:
			return nil, r.wrong(fmt.Errorf("two issuers have the name %s", t.Name), at, "name")
		case urls[t.URL]:
			return nil, r.wrong(fmt.Errorf("two issuers have the url %s", t.URL), at, "url")
		case people && issuer.Login != nil:
			return nil, r.wrong(errors.New("people can log in at one issuer only; another one has a client-id already"), at, "client-id")
		}
		names[t.Name], urls[t.URL], people = true, true, people || issuer.Login != nil
		list = append(list, issuer)
	}
	return list, nil
}

func item(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

func (r *reader) issuer(t *issuerTable, at string) (issuer oidc.Issuer, err error) {
	issuer = oidc.Issuer{Name: t.Name, URL: t.URL, Audience: t.Audience}
	if err := job.CheckName("name", t.Name); err != nil || len(t.Name) > oidc.MaxIssuerName {
		return issuer, r.wrong(fmt.Errorf("name must have 1 to %d of the characters A-Z a-z 0-9 . _ : -", oidc.MaxIssuerName), at, "name")
	}
	if t.URL == "" {
		return issuer, r.wrong(errors.New("url is missing: the claim iss of the tokens"), at, "url")
	}
	if t.Audience == "" {
		return issuer, r.wrong(errors.New("audience is missing: without it, tokens for other programs would be accepted"), at, "audience")
	}
	if t.JWKSFile != "" {
		if issuer.Keys, err = read(r.path(t.JWKSFile)); err == nil {
			err = oidc.CheckKeys(issuer.Keys)
		}
		if err != nil {
			return issuer, r.wrong(fmt.Errorf("jwks-file: %w", err), at, "jwks-file")
		}
	} else if err := oidc.CheckURL(t.URL); err != nil {
		return issuer, r.wrong(fmt.Errorf("url is %w", err), at, "url")
	}
	if issuer.Login, err = r.login(t, at); err != nil {
		return issuer, err
	}
	if len(t.Rules) == 0 || len(t.Rules) > maxRules {
		return issuer, r.wrong(fmt.Errorf("an issuer must have 1 to %d tables [[issuer.rule]], not %d", maxRules, len(t.Rules)), at)
	}
	for i := range t.Rules {
		rule, err := r.rule(&t.Rules[i], at, item("rule", i))
		if err != nil {
			return issuer, err
		}
		if slices.ContainsFunc(issuer.Rules, func(other oidc.Rule) bool { return other.Name == rule.Name }) {
			return issuer, r.wrong(fmt.Errorf("two rules have the name %s", rule.Name), at, item("rule", i), "name")
		}
		for _, other := range r.rules {
			if rule.Key.SharesRunners(&other.Key) {
				return issuer, r.wrong(fmt.Errorf("the rule %s is for other clients, and its runner-prefix %q overlaps with %q, so both could name the same runners",
					other.Name, other.Key.RunnerPrefix, rule.Key.RunnerPrefix), at, item("rule", i), "runner-prefix")
			}
		}
		r.rules = append(r.rules, &rule)
		issuer.Rules = append(issuer.Rules, rule)
	}
	return issuer, nil
}

// login reads how people log in; nil: they do not.
func (r *reader) login(t *issuerTable, at string) (*oidc.Login, error) {
	if t.ClientID == "" {
		for key, given := range map[string]bool{"client-secret-file": t.SecretFile != "", "redirect-url": t.RedirectURL != "", "scopes": t.Scopes != nil} {
			if given {
				return nil, r.wrong(fmt.Errorf("%s needs a client-id", key), at, key)
			}
		}
		return nil, nil
	}
	if t.JWKSFile != "" {
		return nil, r.wrong(errors.New("people cannot log in at an issuer with a jwks-file, which does not say where"), at, "client-id")
	}
	u, err := url.Parse(t.RedirectURL)
	if err == nil {
		err = oidc.CheckURL(t.RedirectURL)
	}
	if err != nil || !strings.HasSuffix(u.Path, oidc.ReturnPath) || u.RawQuery != "" {
		return nil, r.wrong(fmt.Errorf("redirect-url must be the URL of this server with the path %s, such as https://queue.example%s", oidc.ReturnPath, oidc.ReturnPath), at, "redirect-url")
	}
	login := &oidc.Login{ClientID: t.ClientID, Redirect: t.RedirectURL, Scopes: t.Scopes}
	if login.Scopes == nil {
		login.Scopes = []string{"openid"}
	}
	if !slices.Contains(login.Scopes, "openid") {
		return nil, r.wrong(errors.New("scopes must have openid"), at, "scopes")
	}
	if t.SecretFile != "" {
		if login.Secret, err = secret(r.path(t.SecretFile)); err != nil {
			return nil, r.wrong(fmt.Errorf("client-secret-file: %w", err), at, "client-secret-file")
		}
	}
	return login, nil
}

// secret reads a file that other users must not be able to read.
func secret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o007 != 0 { // Windows has no such modes
		return "", fmt.Errorf("%s: %w (mode %04o); run: chmod o= %s", path, certificates.ErrReadable, mode, path)
	}
	text, err := read(path)
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(text))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s must have one line with the secret", path)
	}
	return line, nil
}

func (r *reader) rule(t *ruleTable, at, in string) (rule oidc.Rule, err error) {
	wrong := func(key, format string, args ...any) error { return r.wrong(fmt.Errorf(format, args...), at, in, key) }
	rule = oidc.Rule{Name: t.Name, Claims: t.Claims}
	if err := job.CheckName("name", t.Name); err != nil {
		return rule, wrong("name", "%w", err)
	}
	if len(t.Claims) == 0 || len(t.Claims) > maxClaims {
		return rule, wrong("claims", "claims must have 1 to %d claims: a rule without any would be for everybody", maxClaims)
	}
	for name, value := range t.Claims {
		switch value.(type) {
		case string, bool, int64:
		default:
			return rule, wrong("claims", "claim %s must be a string, a whole number, true or false; it matches a list that has it", name)
		}
	}
	if rule.Key, err = permitted(t); err != nil {
		return rule, wrong("roles", "%w", err)
	}
	return rule, nil
}

// permitted returns the key with what a rule permits.
func permitted(t *ruleTable) (key job.Key, err error) {
	for _, name := range t.Roles {
		role, err := job.ParseRole(name)
		if err != nil {
			return key, err
		}
		key.Roles |= job.RolesOf(role)
	}
	if key.Roles == 0 {
		return key, errors.New("a rule needs at least one role")
	}
	key.Clients, key.Types, key.Redact = sorted(t.Clients), sorted(t.Types), sorted(t.Redact)
	key.RunnerPrefix, key.HidePayloads = t.RunnerPrefix, t.HidePayloads
	if key.RunnerPrefix == "" && !key.All() {
		key.RunnerPrefix = job.DefaultRunnerPrefix(t.Name)
	}
	return key, key.Check()
}

// sorted returns a list in the order that keys have. An empty list stays empty, which is refused.
func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// path returns the path of a file that the file names.
func (r *reader) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.dir, name)
}

// atLine puts the line of an error of the TOML library in front of its text.
func atLine(err error) error {
	if unknown, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(unknown.Errors) > 0 {
		line, _ := unknown.Errors[0].Position()
		return fmt.Errorf(":%d: %s is not known", line, strings.Join(unknown.Errors[0].Key(), "."))
	}
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := at.Position()
		return fmt.Errorf(":%d: %s", line, strings.TrimPrefix(at.Error(), "toml: "))
	}
	return fmt.Errorf(": %w", err)
}

// linesOf returns the lines of all keys. A table of a list has its number, such as issuer[0].
func linesOf(text []byte) map[string]int {
	lines, table := map[string]int{}, []string(nil)
	counts := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		var keys []string
		line := 0
		for key := e.Key(); key.Next(); {
			if line == 0 {
				line = 1 + bytes.Count(text[:key.Node().Raw.Offset], []byte("\n"))
			}
			keys = append(keys, string(key.Node().Data))
		}
		switch e.Kind {
		case unstable.KeyValue:
			keys = append(slices.Clone(table), keys...)
		case unstable.ArrayTable:
			keys = numbered(keys, counts, true)
			table = keys
		default:
			keys = numbered(keys, counts, false)
			table = keys
		}
		if at := strings.Join(keys, "\x00"); lines[at] == 0 {
			lines[at] = line
		}
	}
	return lines
}

// numbered gives the tables of lists in a path their numbers. The last one is a further table if next is true.
func numbered(keys []string, counts map[string]int, next bool) (all []string) {
	for i, key := range keys {
		list := strings.Join(append(slices.Clone(all), key), "\x00")
		if next && i == len(keys)-1 {
			counts[list]++
		}
		if n := counts[list]; n > 0 {
			key = item(key, n-1)
		}
		all = append(all, key)
	}
	return all
}
