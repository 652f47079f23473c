// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// behaviour holds the settings of one tenant. Fields that end in MS are times in milliseconds. A
// new delay does not affect changes that were made before it was set.
type behaviour struct {
	ConsentMS        int  `json:"consent_ms"`         // until a consent applies
	RoleMS           int  `json:"role_ms"`            // until a directory role applies
	AcceptedDomainMS int  `json:"accepted_domain_ms"` // until Exchange accepts mail for a domain
	MailboxMS        int  `json:"mailbox_ms"`         // until Graph shows a new mailbox
	TraceMS          int  `json:"trace_ms"`           // until the message trace shows a message
	RuleMS           int  `json:"rule_ms"`            // until a change of a rule applies to mail
	AliasTaken       bool `json:"alias_taken"`        // the next New-Mailbox finds its alias taken
	NulForbidden     bool `json:"nul_403"`            // a 403 of Exchange has NUL bytes, not an empty body

	// GraphReplicas and ExchangeReplicas make some reads return an older state of the tenant.
	GraphReplicas    replicas `json:"graph_replicas"`
	ExchangeReplicas replicas `json:"exchange_replicas"`
	// DomainMS is the delay after POST /domains until GET finds the domain.
	DomainMS int `json:"domain_ms"`
	// HydrateMS is the delay until Enable-OrganizationCustomization takes effect.
	HydrateMS int `json:"hydrate_ms"`
	// CasMS is the delay until Get-CASMailbox and Set-CASMailbox find a new mailbox. If it is nil,
	// the delay is MailboxMS.
	CasMS *int `json:"cas_ms"`
	// DNSNegativeMS is how long the resolvers cache that a verification record is missing.
	DNSNegativeMS int `json:"dns_negative_ms"`
	TokenSeconds  int `json:"token_seconds"` // the lifetime of tokens
	// PageSize is the largest number of rows in a page of Graph's users and subscriptions, and of
	// Exchange except the message trace.
	PageSize int `json:"page_size"`
	// NextLink is "follow", or "expired" if Exchange refuses every link to a further page.
	NextLink string `json:"next_link"`
	// Elsewhere lists domains that an organization outside the simulator has verified. ElsewhereAt
	// is "verify", or "add" if POST /domains also refuses these domains and the verified domains of
	// other tenants.
	Elsewhere   []string `json:"elsewhere"`
	ElsewhereAt string   `json:"elsewhere_at"`
	// DomainConflict is the status of POST /domains if the tenant already has the domain: 400 or
	// 409.
	DomainConflict int `json:"domain_conflict"`
	// MXStyle maps a domain to "mx.microsoft" or "classic", and DKIMStyle maps a domain to "new" or
	// "classic". They select the form of the domain's records. DKIMLetter is the letter in the host
	// names of the "new" DKIM targets.
	MXStyle    map[string]string `json:"mx_style"`
	DKIMStyle  map[string]string `json:"dkim_style"`
	DKIMLetter string            `json:"dkim_letter"`
	// DKIMListed creates a DKIM configuration with the status NoDKIMKeys when the service Email is
	// enabled for a domain.
	DKIMListed bool `json:"dkim_listed"`
	// EarlyRecords selects the answer to serviceConfigurationRecords before Email is enabled:
	// "empty", "unavailable" (one record of the type domainDnsUnavailableRecord) or "refused".
	EarlyRecords string `json:"early_records"`
	// UPNAlias makes New-Mailbox set the sign-in name alias@<initial domain>.
	UPNAlias bool `json:"upn_alias"`
	// BannedWords are the words with which isBanned compares a password.
	BannedWords       []string `json:"banned_words"`
	SecurityDefaults  bool     `json:"security_defaults"`  // whether security defaults are enabled
	NoExchange        bool     `json:"no_exchange"`        // the tenant has no Exchange Online
	AppDisabled       bool     `json:"app_disabled"`       // the application is disabled in the tenant
	ConditionalAccess bool     `json:"conditional_access"` // Conditional Access refuses app-only tokens
	Deleted           bool     `json:"deleted"`            // the tenant is deleted
	// Licenses replaces the licences that the simulator otherwise derives from the users.
	Licenses *licenses `json:"licenses"`
	// ConsentBusy makes the next consent fail as if a concurrent consent were in progress.
	ConsentBusy     bool `json:"consent_busy"`
	TraceDuplicates bool `json:"trace_duplicates"` // some rows of the message trace appear twice
	// TracePage is the largest number of rows in an answer of the message trace. 0 means 5000.
	TracePage int `json:"trace_page"`
	// TraceQuota is how many trace queries are allowed in 5 minutes. 0 means 100. TraceThrottled is
	// the status of further queries: 400 or 429. 0 means 400.
	TraceQuota     int `json:"trace_quota"`
	TraceThrottled int `json:"trace_throttled"`
	// ThrottleScope is the scope that Graph reports in the answer to a planned 429:
	// "Tenant_Application", "Tenant", or "Application". "Application" throttles the application in
	// all tenants. An empty value means "Tenant_Application".
	ThrottleScope string `json:"throttle_scope"`
	// TraceBare omits the time zone in Received.
	TraceBare bool `json:"trace_bare"`
	// Cmdlets holds the scripted answers, keyed by the name of the cmdlet.
	Cmdlets map[string]scriptedAnswer `json:"cmdlets"`
}

// scriptedAnswer replaces or extends the answer of one cmdlet.
type scriptedAnswer struct {
	// Errors are returned in @adminapi.errors with status 200. The cmdlet is not executed.
	Errors    []string           `json:"errors"`
	Exception *scriptedException `json:"exception"` // the cmdlet is not executed
	Warnings  []string           `json:"warnings"`  // added to the cmdlet's own answer
	Times     int                `json:"times"`     // how many calls get this answer, 0 for all
}

// nextScriptedAnswer returns the scripted answer for a cmdlet, or the zero value. It counts the
// answer as used.
func (b *behaviour) nextScriptedAnswer(cmdlet string) scriptedAnswer {
	answer := b.Cmdlets[cmdlet]
	if answer.Times == 1 {
		delete(b.Cmdlets, cmdlet)
	} else if answer.Times > 1 {
		remaining := answer
		remaining.Times--
		b.Cmdlets[cmdlet] = remaining
	}
	return answer
}

// scriptedException is a .NET exception that a scripted cmdlet returns.
type scriptedException struct {
	ID   string `json:"id"` // such as Ex6F9304, or ""
	Type string `json:"type"`
	Text string `json:"text"`
}

// defaultBehaviour returns the settings of a new tenant. They follow Microsoft, but the delays are
// shorter.
func defaultBehaviour() behaviour {
	return behaviour{
		ConsentMS: 1000, RoleMS: 1000, AcceptedDomainMS: 1000, MailboxMS: 1000,
		NulForbidden: true, DomainMS: 300, HydrateMS: 1000, TokenSeconds: 3599, PageSize: 1000,
		NextLink: "follow", ElsewhereAt: "verify", DomainConflict: 400,
		DKIMLetter: "n", EarlyRecords: "empty",
		TraceDuplicates: true,
	}
}

func (b behaviour) validate() error {
	for name, ms := range map[string]int{
		"consent_ms": b.ConsentMS, "role_ms": b.RoleMS, "accepted_domain_ms": b.AcceptedDomainMS,
		"mailbox_ms": b.MailboxMS, "trace_ms": b.TraceMS, "rule_ms": b.RuleMS, "domain_ms": b.DomainMS,
		"hydrate_ms": b.HydrateMS, "dns_negative_ms": b.DNSNegativeMS,
	} {
		if ms < 0 {
			return errors.New(name + " must not be negative")
		}
	}
	for _, style := range b.MXStyle {
		if err := simulate.OneOf("mx_style", style, "mx.microsoft", "classic"); err != nil {
			return err
		}
	}
	for _, style := range b.DKIMStyle {
		if err := simulate.OneOf("dkim_style", style, "new", "classic"); err != nil {
			return err
		}
	}
	for _, answer := range b.Cmdlets {
		if answer.Times < 0 {
			return errors.New("times must not be negative")
		}
	}
	for _, r := range []replicas{b.GraphReplicas, b.ExchangeReplicas} {
		if err := r.validate(); err != nil {
			return err
		}
	}
	switch {
	case b.Licenses != nil && (b.Licenses.Paid < 0 || b.Licenses.Trial < 0):
		return errors.New("licenses must not be negative")
	case b.CasMS != nil && *b.CasMS < 0:
		return errors.New("cas_ms must not be negative")
	case b.TokenSeconds < 1 || b.PageSize < 1:
		return errors.New("token_seconds and page_size must be at least 1")
	case b.TracePage < 0 || b.TracePage == 1 || b.TraceQuota < 0:
		return errors.New("trace_page must be 0 or at least 2, and trace_quota must not be negative")
	case !slices.Contains([]string{"", "Tenant_Application", "Tenant", applicationScope}, b.ThrottleScope):
		return errors.New("throttle_scope must be Tenant_Application, Tenant or Application")
	case len(b.DKIMLetter) != 1 || b.DKIMLetter < "a" || b.DKIMLetter > "z":
		return errors.New("dkim_letter must be a letter from a to z")
	}
	return cmp.Or(
		simulate.OneOf("trace_throttled", b.TraceThrottled, 0, 400, 429),
		simulate.OneOf("next_link", b.NextLink, "follow", "expired"),
		simulate.OneOf("elsewhere_at", b.ElsewhereAt, "verify", "add"),
		simulate.OneOf("domain_conflict", b.DomainConflict, 400, 409),
		simulate.OneOf("early_records", b.EarlyRecords, "empty", "unavailable", "refused"),
	)
}

// casLag returns mailbox.CASLag of a mailbox that is created now.
func (b behaviour) casLag(now time.Time) lag {
	if b.CasMS != nil {
		return startLag(now, *b.CasMS)
	}
	return startLag(now, b.MailboxMS)
}

// lag is the time during which a change has no visible effect yet. For the zero value, hasPassed
// returns true and hasStarted returns false.
type lag struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// clockTolerance is how far the start of a lag may be in the future. A concurrent call can have
// read the clock slightly earlier than the call that started the lag.
const clockTolerance = 5 * time.Second

func startLag(now time.Time, ms int) lag {
	return lag{Since: now, Until: now.Add(time.Duration(ms) * time.Millisecond)}
}

// hasPassed reports whether the change is visible now. It also returns true if the lag starts more
// than clockTolerance in the future. The clock of the sandbox was then moved back, and the change
// would otherwise be hidden until the clock reaches the old time again.
func (l lag) hasPassed(now time.Time) bool {
	return !now.Before(l.Until) || now.Before(l.Since.Add(-clockTolerance))
}

func (l lag) hasStarted() bool { return !l.Since.IsZero() }
