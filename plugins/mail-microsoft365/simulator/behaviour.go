// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"time"
)

// behaviour are the knobs of one tenant. A changed delay holds for what comes
// after it. The first block is the sandbox's contract, the rest is for tests
// that need one behaviour of the reference in particular.
type behaviour struct {
	ConsentMS        int  `json:"consent_ms"`
	RoleMS           int  `json:"role_ms"`
	AcceptedDomainMS int  `json:"accepted_domain_ms"`
	MailboxMS        int  `json:"mailbox_ms"`
	TraceMS          int  `json:"trace_ms"`
	RuleMS           int  `json:"rule_ms"`
	AliasTaken       bool `json:"alias_taken"`
	NulForbidden     bool `json:"nul_403"`

	DomainMS          int                 `json:"domain_ms"`       // GET after POST /domains
	HydrateMS         int                 `json:"hydrate_ms"`      // after Enable-OrganizationCustomization
	CasMS             *int                `json:"cas_ms"`          // Set-CASMailbox, else as mailbox_ms
	DNSNegativeMS     int                 `json:"dns_negative_ms"` // how long a missing record is remembered
	TokenSeconds      int                 `json:"token_seconds"`
	PageSize          int                 `json:"page_size"`
	NextLink          string              `json:"next_link"`       // "follow" or "expired"
	Elsewhere         []string            `json:"elsewhere"`       // domains that another tenant owns
	ElsewhereAt       string              `json:"elsewhere_at"`    // "verify" or "add"
	DomainConflict    int                 `json:"domain_conflict"` // 400 or 409
	MXStyle           map[string]string   `json:"mx_style"`        // domain -> "mx.microsoft" or "classic"
	DKIMStyle         map[string]string   `json:"dkim_style"`      // domain -> "new" or "classic"
	DKIMLetter        string              `json:"dkim_letter"`     // of the new style
	DKIMListed        bool                `json:"dkim_listed"`     // accepted domains are listed with NoDKIMKeys
	EarlyRecords      string              `json:"early_records"`   // "empty", "unavailable" or "refused"
	UPNAlias          bool                `json:"upn_alias"`       // New-Mailbox signs in as alias@initial
	BannedWords       []string            `json:"banned_words"`    // no password is built on one of them
	SecurityDefaults  bool                `json:"security_defaults"`
	NoExchange        bool                `json:"no_exchange"`
	AppDisabled       bool                `json:"app_disabled"`
	ConditionalAccess bool                `json:"conditional_access"`
	Deleted           bool                `json:"deleted"`
	Licenses          *licenses           `json:"licenses"`     // for e-mail, else as many as users have, and one at least
	ConsentBusy       bool                `json:"consent_busy"` // the next consent meets another one
	TraceDuplicates   bool                `json:"trace_duplicates"`
	TracePage         int                 `json:"trace_page"`      // rows of an answer at most, else what is asked for
	TraceQuota        int                 `json:"trace_quota"`     // queries in 5 minutes, else 100
	TraceThrottled    int                 `json:"trace_throttled"` // 400, the usual, or 429
	TraceBare         bool                `json:"trace_bare"`      // Received has no zone
	Cmdlets           map[string]scripted `json:"cmdlets"`         // what a cmdlet says out of turn
}

// scripted is what one cmdlet answers instead of doing its work.
type scripted struct {
	Errors    []string `json:"errors"` // 200 with @adminapi.errors
	Exception *thrown  `json:"exception"`
	Warnings  []string `json:"warnings"` // the work is done
	Times     int      `json:"times"`    // how often, 0 for always
}

// script takes what a cmdlet is to say this time.
func (b *behaviour) script(cmdlet string) scripted {
	said := b.Cmdlets[cmdlet]
	if said.Times == 1 {
		delete(b.Cmdlets, cmdlet)
	} else if said.Times > 1 {
		left := said
		left.Times--
		b.Cmdlets[cmdlet] = left
	}
	return said
}

// thrown is a .NET exception.
type thrown struct {
	ID   string `json:"id"` // such as Ex6F9304, or ""
	Type string `json:"type"`
	Text string `json:"text"`
}

// usual is how a new tenant behaves: as Microsoft does, only faster.
func usual() behaviour {
	return behaviour{
		ConsentMS: 1000, RoleMS: 1000, AcceptedDomainMS: 1000, MailboxMS: 1000,
		NulForbidden: true, DomainMS: 300, HydrateMS: 1000, TokenSeconds: 3599, PageSize: 1000,
		NextLink: "follow", ElsewhereAt: "verify", DomainConflict: 400,
		DKIMLetter: "n", EarlyRecords: "empty",
		TraceDuplicates: true,
	}
}

// check says what is wrong with the knobs.
func (b behaviour) check() error {
	for _, ms := range []int{b.ConsentMS, b.RoleMS, b.AcceptedDomainMS, b.MailboxMS, b.TraceMS,
		b.RuleMS, b.DomainMS, b.HydrateMS, b.DNSNegativeMS} {
		if ms < 0 {
			return errors.New("a delay is not negative")
		}
	}
	for _, said := range b.Cmdlets {
		if said.Times < 0 {
			return errors.New("times is not negative")
		}
	}
	switch {
	case b.Licenses != nil && (b.Licenses.Paid < 0 || b.Licenses.Trial < 0):
		return errors.New("licenses are not negative")
	case b.CasMS != nil && *b.CasMS < 0:
		return errors.New("a delay is not negative")
	case b.TokenSeconds < 1 || b.PageSize < 1:
		return errors.New("token_seconds and page_size are at least 1")
	case b.TracePage < 0 || b.TracePage == 1 || b.TraceQuota < 0:
		return errors.New("trace_page is at least 2, trace_quota not negative")
	case b.TraceThrottled != 0 && b.TraceThrottled != 400 && b.TraceThrottled != 429:
		return errors.New("trace_throttled is 400 or 429")
	case b.NextLink != "follow" && b.NextLink != "expired":
		return errors.New("next_link is follow or expired")
	case b.ElsewhereAt != "verify" && b.ElsewhereAt != "add":
		return errors.New("elsewhere_at is verify or add")
	case b.DomainConflict != 400 && b.DomainConflict != 409:
		return errors.New("domain_conflict is 400 or 409")
	case b.EarlyRecords != "empty" && b.EarlyRecords != "unavailable" && b.EarlyRecords != "refused":
		return errors.New("early_records is empty, unavailable or refused")
	}
	return nil
}

// usable is how long Exchange hides a mailbox made now from some cmdlets.
func (b behaviour) usable(now time.Time) lag {
	if b.CasMS != nil {
		return after(now, *b.CasMS)
	}
	return after(now, b.MailboxMS)
}
