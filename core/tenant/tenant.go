// SPDX-License-Identifier: Apache-2.0

// Package tenant defines a tenant of the mail platform, the progress of its setup and the next
// step. A tenant is one organization with its domains and mailboxes. A sync reads the tenant's
// current state from the platform.
//
// Tenant in tenant.go is the main type; start reading there. readiness.go derives the progress and
// the status of a tenant. merge.go merges a stored tenant with an observation of it. sync.go
// defines the results of a sync. headroom.go estimates how much a tenant may still send.
// ConnectSession in connectsession.go is an account's request to connect a tenant.
package tenant

import (
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
)

// GUID is the mail platform's id of a tenant, in lower case.
type GUID string

// NoGUID is a GUID that no tenant has.
const NoGUID GUID = ident.Zero

// ParseGUID returns the canonical form of raw, or false if raw is not a GUID.
func ParseGUID(raw string) (GUID, bool) {
	id, ok := ident.Parse(raw)
	return GUID(id), ok
}

// CheckGUID returns the canonical form of raw. It fails with invalid_request if no tenant can have
// this GUID.
func CheckGUID(raw string) (GUID, error) {
	id, ok := ParseGUID(raw)
	if !ok || id == NoGUID {
		return "", fault.InvalidRequest.With("a tenant is named by its GUID")
	}
	return id, nil
}

// ParseGUIDOrNone returns the GUID to look up for raw. It returns NoGUID if raw is malformed, so
// that the caller gets the same answer as for an unknown GUID.
func ParseGUIDOrNone(raw string) GUID { return GUID(ident.ParseOrZero(raw)) }

// Bootstrap says whether the service can manage the mail server of the tenant.
type Bootstrap string

// The states of the bootstrap.
const (
	BootstrapPending Bootstrap = "pending"
	BootstrapReady   Bootstrap = "ready"
	BootstrapFailed  Bootstrap = "failed"
)

// SMTPAuth is the organization-wide state of authenticated SMTP.
type SMTPAuth string

// The states of SMTP AUTH. SMTPAuthRefused means that SMTP AUTH is off and that the platform does
// not allow tenantry to enable it.
const (
	SMTPAuthUnknown  SMTPAuth = "unknown"
	SMTPAuthEnabled  SMTPAuth = "enabled"
	SMTPAuthDisabled SMTPAuth = "disabled"
	SMTPAuthRefused  SMTPAuth = "refused"
)

// Consent says whether the administrator's consent is still valid.
type Consent string

// The states of the consent.
const (
	ConsentGranted Consent = "granted"
	ConsentRevoked Consent = "revoked"
)

// Discovery says whether the last sync could read the tenant's profile and its domains.
type Discovery string

// The states of discovery.
const (
	DiscoveryPending   Discovery = "pending"
	DiscoveryCompleted Discovery = "completed"
	DiscoveryFailed    Discovery = "failed"
)

// Tenant is a tenant of the mail platform. It belongs to one account. Either the account has
// connected the tenant, or the operator has assigned the tenant to the account.
type Tenant struct {
	ID              string // UUIDv7, the service's own id
	GUID            GUID
	Name            string
	BuiltinDomain   string // the platform's own domain of the tenant
	DefaultDomain   string // primary verified custom domain, or ""
	Managed         bool   // assigned by the operator, not connected by the account
	Consent         Consent
	ConsentedAt     time.Time
	ConnectedBy     string // the address of the administrator, empty if the tenant was only assigned
	Bootstrap       Bootstrap
	BootstrapStep   BootstrapStep // what the last attempt is waiting for
	SMTPAuth        SMTPAuth
	Discovery       Discovery
	LastSyncAt      time.Time // zero if never
	UserMailboxes   int       // mailboxes of users with a licence, at the platform
	DomainCount     int       // number of stored domains
	DomainsVerified int
	DomainsSigned   int // with DKIM enabled
	// DomainsAwaitingVerification is the number of unverified domains whose verification record the
	// last DNS read found.
	DomainsAwaitingVerification int
	MailboxCount                int // number of stored mailboxes
	// Observed says when each part of the tenant was observed at the platform. It is zero in a
	// tenant that a use case has just loaded from the store. If such a tenant is stored again, the
	// stored observations stay.
	Observed Observed
}

// BootstrapStep is what a bootstrap is waiting for.
type BootstrapStep string

// The bootstrap steps. StepGrantRole needs an administrator of the tenant, because the platform
// does not let the service assign the role to itself. StepNoExchange means that the tenant has no
// mail server. A sync can bootstrap the tenant once the tenant has a mail server.
const (
	StepNone       BootstrapStep = ""
	StepWait       BootstrapStep = "wait"
	StepGrantRole  BootstrapStep = "grant_role"
	StepReconnect  BootstrapStep = "reconnect"
	StepNoExchange BootstrapStep = "no_exchange"
)

// Progress is the result of one call of ports.MailServer.Bootstrap: the state, and what the
// bootstrap waits for.
type Progress struct {
	Status  Bootstrap
	Step    BootstrapStep
	Message string // safe to show
}

// Profile is the platform's description of a tenant.
type Profile struct {
	Name          string
	BuiltinDomain string
	DefaultDomain string // primary custom domain, or ""
}

// Administrator is the person who signed in to prove control of the tenant.
type Administrator struct {
	Tenant  GUID
	Address string // for display only; never authorize on it
	Name    string
}

// CheckConsent fails with access_denied if the tenant's consent is revoked. A request that calls
// the platform calls CheckConsent first, after it was validated. A sync does not call CheckConsent,
// because it finds out whether the consent is valid again.
func (t Tenant) CheckConsent() error {
	if t.Consent == ConsentRevoked {
		return fault.AccessDenied.With("the tenant's administrator has revoked the consent; connect the tenant again")
	}
	return nil
}

// CheckMailServer fails with exchange_bootstrap_not_ready if the tenant's mail server is not
// prepared.
func (t Tenant) CheckMailServer() error {
	if t.Bootstrap != BootstrapReady {
		return fault.ExchangeNotReady.With("the mail server of the tenant is not prepared yet")
	}
	return nil
}

// CheckConsentAndMailServer fails with the error of CheckConsent or of CheckMailServer.
func (t Tenant) CheckConsentAndMailServer() error {
	if err := t.CheckConsent(); err != nil {
		return err
	}
	return t.CheckMailServer()
}
