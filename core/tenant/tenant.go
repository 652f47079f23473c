// SPDX-License-Identifier: Apache-2.0

// Package tenant holds a tenant of the mail platform, the progress of its setup and the next step.
//
// Tenant in tenant.go is the main type; start reading there. readiness.go and status.go derive the
// progress, sync.go the results of a sync, consent.go checks the consent, and headroom.go and
// licenses.go estimate sending limits.
package tenant

import "time"

// GUID is the mail platform's id of a tenant, lower case.
type GUID string

// Bootstrap says whether mail-server automation works.
type Bootstrap string

// The states of the bootstrap.
const (
	BootstrapPending Bootstrap = "pending"
	BootstrapReady   Bootstrap = "ready"
	BootstrapFailed  Bootstrap = "failed"
)

// SMTPAuth is the organization-wide state of authenticated SMTP.
type SMTPAuth string

// The states of SMTP AUTH. Refused: it is off and the platform does not let
// it be switched on.
const (
	SMTPAuthUnknown  SMTPAuth = "unknown"
	SMTPAuthEnabled  SMTPAuth = "enabled"
	SMTPAuthDisabled SMTPAuth = "disabled"
	SMTPAuthRefused  SMTPAuth = "refused"
)

// Consent says whether the administrator's consent still holds.
type Consent string

// The states of the consent.
const (
	ConsentGranted Consent = "granted"
	ConsentRevoked Consent = "revoked"
)

// Discovery says how the last discovery ended.
type Discovery string

// The states of discovery.
const (
	DiscoveryPending   Discovery = "pending"
	DiscoveryCompleted Discovery = "completed"
	DiscoveryFailed    Discovery = "failed"
)

// Tenant is a tenant as one account holds it.
type Tenant struct {
	ID              string // UUIDv7, the service's own id
	GUID            GUID
	Name            string
	BuiltinDomain   string // the platform's own domain of the tenant
	DefaultDomain   string // primary verified custom domain, or ""
	Managed         bool   // assigned by the operator, not connected by the account
	Consent         Consent
	ConsentedAt     time.Time
	ConnectedBy     string
	Bootstrap       Bootstrap
	BootstrapStep   BootstrapStep // what the last attempt is waiting for
	SMTPAuth        SMTPAuth
	Discovery       Discovery
	LastSyncAt      time.Time // zero: never
	UserMailboxes   int
	DomainCount     int // counted from the stored rows
	DomainsVerified int
	DomainsSigned   int // with DKIM enabled
	// DomainsPublished counts those of the unverified domains whose
	// verification record the last DNS read saw.
	DomainsPublished int
	MailboxCount     int
}

// BootstrapStep is what stands between a tenant and a ready bootstrap.
type BootstrapStep string

// What a bootstrap can wait for. GrantRole needs the administrator: the
// platform does not let us take the role ourselves. NoExchange is final.
const (
	StepNone       BootstrapStep = ""
	StepWait       BootstrapStep = "wait"
	StepGrantRole  BootstrapStep = "grant_role"
	StepReconnect  BootstrapStep = "reconnect"
	StepNoExchange BootstrapStep = "no_exchange"
)

// Progress is the answer of one bootstrap step at the mail server.
type Progress struct {
	Status  Bootstrap
	Step    BootstrapStep
	Message string // safe to show
}

// Profile is what the platform says of a tenant.
type Profile struct {
	Name          string
	BuiltinDomain string
	DefaultDomain string // primary custom domain, or ""
}

// Administrator is the person whose sign-in proved the tenant.
type Administrator struct {
	Tenant  GUID
	Address string // for display only; never authorize on it
	Name    string
}
