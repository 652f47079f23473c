// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"time"
)

// domainDoc is a domain in the format of the API.
type domainDoc struct {
	Name        string `json:"name"`
	Verified    bool   `json:"verified"`
	Default     bool   `json:"default"`
	MailEnabled bool   `json:"mail_enabled"`
}

func (d *domain) doc() domainDoc {
	return domainDoc{Name: d.Name, Verified: d.Verified, MailEnabled: d.MailEnabled}
}

// acceptsMailFor reports whether the mail server accepts mail for a domain.
func (t *tenant) acceptsMailFor(name string, now time.Time) bool {
	d := t.Domains[name]
	return d != nil && d.MailEnabled && !now.Before(d.AcceptedAt)
}

// ofDomain returns an operation that calls run with the domain in the path. If the tenant has no
// such domain, it answers no_domain instead.
func ofDomain(run operation) operation {
	return func(c *call) (any, string) {
		if c.domain = c.tenant.Domains[c.http.PathValue("domain")]; c.domain == nil {
			return nil, "no_domain"
		}
		return run(c)
	}
}

func profile(c *call) (any, string) {
	return map[string]string{"name": c.tenant.Name, "builtin_domain": c.tenant.Builtin, "default_domain": ""}, ""
}

func listDomains(c *call) (any, string) {
	list := []domainDoc{}
	for _, name := range c.tenant.domainNames() {
		list = append(list, c.tenant.Domains[name].doc())
	}
	return map[string]any{"domains": list}, ""
}

// addDomain answers with the existing domain if there is one.
func addDomain(c *call) (any, string) {
	name := c.http.PathValue("domain")
	if d := c.tenant.Domains[name]; d != nil {
		return d.doc(), ""
	}
	if !strings.Contains(name, ".") || strings.HasSuffix(name, ".mail.example") {
		return nil, "domain_name_refused"
	}
	d := &domain{Name: name}
	c.tenant.Domains[name] = d
	return d.doc(), ""
}

func getDomain(c *call) (any, string) { return c.domain.doc(), "" }

func removeDomain(c *call) (any, string) {
	for _, m := range c.tenant.Mailboxes {
		if strings.HasSuffix(m.Address, "@"+c.domain.Name) {
			return nil, "domain_used"
		}
	}
	delete(c.tenant.Domains, c.domain.Name)
	return struct{}{}, ""
}

func getRecords(c *call) (any, string) {
	mail := []record{}
	if c.domain.MailEnabled {
		mail = mailRecords(c.domain.Name)
	}
	return map[string]any{"proof": []record{c.tenant.proofRecord(c.domain.Name)}, "mail": mail}, ""
}

// verifyDomain queries the DNS for the record that proves the ownership. Only one tenant can verify
// a domain.
func verifyDomain(c *call) (any, string) {
	for _, other := range c.platformState.Tenants {
		if d := other.Domains[c.domain.Name]; other != c.tenant && d != nil && d.Verified {
			return nil, "domain_taken"
		}
	}
	if !c.domain.Verified && !c.isPublished(c.http.Context(), c.tenant.proofRecord(c.domain.Name)) {
		return nil, "domain_not_proven"
	}
	c.domain.Verified = true
	return c.domain.doc(), ""
}

func enableMail(c *call) (any, string) {
	if !c.domain.Verified {
		return nil, "domain_not_verified"
	}
	if !c.domain.MailEnabled {
		c.domain.MailEnabled, c.domain.AcceptedAt = true, c.now.Add(milliseconds(c.tenant.Behaviour.AcceptedMS))
	}
	return c.domain.doc(), ""
}
