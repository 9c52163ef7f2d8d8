package api

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
)

// CertificateRule gives the clients whose certificates have a name a key, so that they need to send none. The server has verified
// the certificates (tls.Config.ClientCAs).
type CertificateRule struct {
	Field string // cn, dns, email or uri: the common name of the subject, or a subject alternative name
	Name  string
	Key   string
}

// certificateFields returns the names of a certificate in a field.
var certificateFields = map[string]func(*x509.Certificate) []string{
	"cn":    func(c *x509.Certificate) []string { return []string{c.Subject.CommonName} },
	"dns":   func(c *x509.Certificate) []string { return c.DNSNames },
	"email": func(c *x509.Certificate) []string { return c.EmailAddresses },
	"uri": func(c *x509.Certificate) (names []string) {
		for _, u := range c.URIs {
			names = append(names, u.String())
		}
		return names
	},
}

// ParseCertificateRule reads a rule of the form FIELD:NAME=KEY, such as dns:worker-1.example=mixer.
func ParseCertificateRule(text string) (r CertificateRule, err error) {
	at := strings.LastIndexByte(text, '=')
	field, name, ok := strings.Cut(text[:max(at, 0)], ":")
	if !ok || name == "" || certificateFields[field] == nil {
		return r, fmt.Errorf("%q does not have the form FIELD:NAME=KEY with one of the fields cn, dns, email and uri", text)
	}
	r = CertificateRule{field, name, text[at+1:]}
	return r, job.CheckName("key", r.Key)
}

// certified returns the key for which the verified certificate of a client stands, as it is now.
func (a *authorizer) certified(c *x509.Certificate) (*job.Key, error) {
	now := a.engine.Now()
	for _, r := range a.certificates {
		if !slices.Contains(certificateFields[r.Field](c), r.Name) {
			continue
		}
		key := a.engine.Key(r.Key)
		if key == nil || key.Expired(now) || now > c.NotAfter.UnixMilli() {
			return nil, errWrongKey
		}
		return key, nil
	}
	return nil, errNoKey
}
