// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
	"time"
)

// mailDomain is a custom domain of a tenant. The built-in one is not stored.
type mailDomain struct {
	Name     string   `json:"name"`
	Verified bool     `json:"verified"`
	Root     bool     `json:"root"`
	Default  bool     `json:"default"`
	Services []string `json:"services"`
	Visible  lag      `json:"visible"`  // to GET
	Accepted lag      `json:"accepted"` // by Exchange, when Email is on
	// Denied is how long the resolvers still remember that there was no
	// verification record.
	Denied lag `json:"denied"`
}

// mail reports whether the e-mail service is on.
func (d *mailDomain) mail() bool { return slices.Contains(d.Services, "Email") }

// domain finds a custom domain.
func (t *tenant) domain(name string) *mailDomain {
	for i := range t.Domains {
		if strings.EqualFold(t.Domains[i].Name, name) {
			return &t.Domains[i]
		}
	}
	return nil
}

// accepted reports whether Exchange takes mail for a domain at a time.
func (t *tenant) accepted(name string, at time.Time) bool {
	if strings.EqualFold(name, t.initial()) {
		return true
	}
	d := t.domain(name)
	return d != nil && d.Verified && d.mail() && d.Accepted.over(at)
}

// organization is what Exchange Online holds of a tenant.
type organization struct {
	Dehydrated bool `json:"dehydrated"`
	Hydration  lag  `json:"hydration"` // begun once asked for
	// SMTPAuthDisabled is SmtpClientAuthenticationDisabled of the organization.
	SMTPAuthDisabled bool         `json:"smtp_auth_disabled"`
	Mailboxes        []mailbox    `json:"mailboxes"`
	Signing          []dkimConfig `json:"signing"`
	// Held are proxy addresses of objects that are no mailboxes.
	Held []string `json:"held"`

	Rules    []transportRule `json:"rules"`
	RuleLog  []version       `json:"rule_log"` // what mail meets, oldest first
	Messages int             `json:"messages"` // that were ever sent
	Sent     []batch         `json:"sent"`
	Traced   []time.Time     `json:"traced"` // queries of the trace within its quota
}

// dehydrated reports whether customization is still to be enabled.
func (o organization) dehydrated(at time.Time) bool {
	return o.Dehydrated && !(o.Hydration.begun() && o.Hydration.over(at))
}

// mailbox is one mailbox of any kind.
type mailbox struct {
	ObjectID    string    `json:"object_id"` // of the directory, "" for system mailboxes
	GUID        string    `json:"guid"`
	Exchange    string    `json:"exchange"` // ExchangeGuid
	Name        string    `json:"name"`
	DisplayName string    `json:"display_name"`
	Alias       string    `json:"alias"`
	Primary     string    `json:"primary"`
	Others      []string  `json:"others"`
	Kind        string    `json:"kind"` // RecipientTypeDetails
	SentCopy    bool      `json:"sent_copy"`
	Created     time.Time `json:"created"`
	Usable      lag       `json:"usable"`
	// SMTPAuthDisabled is null while the organization decides.
	SMTPAuthDisabled *bool `json:"smtp_auth_disabled"`
}

// mailbox finds a mailbox by any identity that the cmdlets take.
func (t *tenant) mailbox(identity string) *mailbox {
	for i := range t.Exchange.Mailboxes {
		m := &t.Exchange.Mailboxes[i]
		keys := append([]string{m.Primary, m.Name, m.Alias, m.GUID, m.Exchange, m.ObjectID}, m.Others...)
		if u := t.user(m.ObjectID); u != nil {
			keys = append(keys, u.UPN)
		}
		if slices.ContainsFunc(keys, func(k string) bool { return k != "" && strings.EqualFold(k, identity) }) {
			return m
		}
	}
	return nil
}

// dkimConfig is the DKIM configuration of a domain.
type dkimConfig struct {
	Domain  string    `json:"domain"`
	Keys    bool      `json:"keys"`
	KeySize int       `json:"key_size"`
	Enabled bool      `json:"enabled"`
	Targets [2]string `json:"targets"`
	Created time.Time `json:"created"`
	Checked time.Time `json:"checked"`
}

// signing finds the DKIM configuration of a domain.
func (t *tenant) signing(name string) *dkimConfig {
	for i := range t.Exchange.Signing {
		if strings.EqualFold(t.Exchange.Signing[i].Domain, name) {
			return &t.Exchange.Signing[i]
		}
	}
	return nil
}
