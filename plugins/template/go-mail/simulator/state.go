// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// state is the data that the platform stores.
type state struct {
	Serial  int                `json:"serial"` // counts everything that gets an id
	Tenants map[string]*tenant `json:"tenants"`
	Codes   map[string]login   `json:"codes"` // sign-ins that were not redeemed yet
}

// tenant is one customer of the platform.
type tenant struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Builtin     string     `json:"builtin_domain"`
	Denied      bool       `json:"denied"`       // the application may not take the role itself
	SMTPRefused bool       `json:"smtp_refused"` // the platform keeps SMTP disabled
	SMTP        bool       `json:"smtp"`         // authenticated SMTP is enabled
	Dormant     bool       `json:"dormant"`      // the mail server needs preparation
	ConsentAt   time.Time  `json:"consent_at"`   // when the consent applies, zero without consent
	RoleAt      time.Time  `json:"role_at"`      // when the role applies, zero without the role
	AwakeAt     time.Time  `json:"awake_at"`     // when the preparation ends, zero before it begins
	Behaviour   behaviour  `json:"behaviour"`
	Domains     domains    `json:"domains"`   // keyed by name
	Mailboxes   []*mailbox `json:"mailboxes"` // in the order of their creation
	Rules       []*rule    `json:"rules"`     // in the order of their creation
	Messages    []message  `json:"messages"`  // in the order in which they were sent
}

type domains map[string]*domain

// behaviour has delays in milliseconds, the number of rows on a page of the message trace, and the
// numbers of licences. DomainMS has no effect, because this platform shows new domains at once. The
// conformance checks set it at every platform.
type behaviour struct {
	ConsentMS     int       `json:"consent_ms"`
	RoleMS        int       `json:"role_ms"`
	DomainMS      int       `json:"domain_ms"`
	AcceptedMS    int       `json:"accepted_domain_ms"`
	MailboxMS     int       `json:"mailbox_ms"`
	RuleMS        int       `json:"rule_ms"`
	TraceMS       int       `json:"trace_ms"`
	TracePageSize int       `json:"trace_page"`
	Licenses      *licences `json:"licenses"`
}

type licences struct {
	Paid  int `json:"paid"`
	Trial int `json:"trial"`
}

// domain is a domain of a tenant.
type domain struct {
	Name           string    `json:"name"`
	Verified       bool      `json:"verified"`
	MailEnabled    bool      `json:"mail_enabled"`
	AcceptedAt     time.Time `json:"accepted_at"` // when the mail server accepts its mail
	SigningCreated bool      `json:"signing"`     // the DKIM configuration was created
	SigningEnabled bool      `json:"signs"`
}

// mailbox is a shared mailbox.
type mailbox struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Address    string    `json:"address"`
	Username   string    `json:"username"`
	Alias      string    `json:"alias"`
	Enabled    bool      `json:"enabled"`
	Submission bool      `json:"submission"`
	Created    time.Time `json:"created"`
}

// rule is a mail flow rule with its versions, the newest last.
type rule struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Versions []ruleVersion `json:"versions"`
}

type ruleVersion struct {
	Since   time.Time `json:"since"`
	Form    string    `json:"form"`
	Enabled bool      `json:"enabled"`
	Senders []string  `json:"senders"`
}

// message is a message that a mailbox sent.
type message struct {
	ID      string    `json:"id"`
	Sender  string    `json:"sender"`
	At      time.Time `json:"at"`
	Refused bool      `json:"refused"`
}

// record is a DNS record in the format of the API.
type record struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Content  string `json:"content"`
	Priority int    `json:"priority"`
	TTL      int    `json:"ttl"`
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// newID returns an id that is not used yet.
func (s *state) newID() string {
	s.Serial++
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", s.Serial)
}

// addTenant creates a tenant that is not connected.
func (s *state) addTenant(tenantName string) *tenant {
	t := &tenant{ID: s.newID(), Name: tenantName, Domains: domains{}}
	t.Builtin = fmt.Sprintf("tenant%d.mail.example", s.Serial)
	if t.Name == "" {
		t.Name = fmt.Sprintf("Tenant %d", s.Serial)
	}
	s.Tenants[t.ID] = t
	return t
}

func (t *tenant) admin() string { return "admin@" + t.Builtin }

func (t *tenant) domainNames() []string { return slices.Sorted(maps.Keys(t.Domains)) }
