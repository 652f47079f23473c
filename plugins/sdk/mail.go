// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// The types of a MailPlatform.
type (
	// TenantID is the id of a tenant.
	TenantID = tenant.GUID
	// TenantProfile has the name of a tenant and the names of its built-in and default domains.
	TenantProfile = tenant.Profile
	// AdministratorSignIn is an alias of SignIn.
	AdministratorSignIn = ports.SignIn
	// Administrator is a person who has signed in with the role that can give consent.
	Administrator = tenant.Administrator
	// MailDomain is a domain of a tenant at the mail platform.
	MailDomain = domain.Platform
	// MailRecords are the DNS records that the platform specifies for a domain.
	MailRecords = domain.Records
	// Record is a DNS record.
	Record = dns.Record
	// Signing is the DKIM configuration of a domain.
	Signing = dns.Signing
	// Preparation is the progress of the mail server's preparation.
	Preparation = tenant.Progress
	// SMTPAuth is the organization-wide state of authenticated SMTP.
	SMTPAuth = tenant.SMTPAuth
	// Licenses are the e-mail licences of a tenant.
	Licenses = tenant.Licenses
	// Mailbox is a shared mailbox at the mail platform.
	Mailbox = mailbox.Platform
	// MailboxSpec describes a mailbox to create.
	MailboxSpec = mailbox.Spec
	// SendRule is a rule that blocks mailboxes.
	SendRule = sendlimit.Rule
	// TraceQuery selects messages of the message trace.
	TraceQuery = sendlimit.TraceQuery
	// Trace is one page of the message trace.
	Trace = sendlimit.Trace
	// SentMessage is one row of the message trace.
	SentMessage = sendlimit.Sent
)

// The states of a Preparation, two of its steps, and two of the states of SMTPAuth.
const (
	PreparationPending = tenant.BootstrapPending
	PreparationReady   = tenant.BootstrapReady
	PreparationFailed  = tenant.BootstrapFailed
	StepWait           = tenant.StepWait
	StepGrantRole      = tenant.StepGrantRole
	SMTPAuthEnabled    = tenant.SMTPAuthEnabled
	SMTPAuthDisabled   = tenant.SMTPAuthDisabled
)

// SendRuleName returns the name of the rule of a scope. A scope is the whole tenant or one domain.
func SendRuleName(scope string) string { return sendlimit.RuleName(scope) }

// IsSendRuleName reports whether tenantry manages rules with this name.
func IsSendRuleName(name string) bool { return sendlimit.IsRuleName(name) }

// DomainNotFound returns the error for a domain that the tenant does not have at the platform.
func DomainNotFound(cause string) error {
	return RefusedAs("domain_not_found", cause, "the tenant does not have this domain")
}

// RefusedAs returns a refusal with a published error code of core/fault. The comments of the
// methods in package ports say "fails with" before their codes. Callers of tenantry see detail. For
// a code that does not exist, RefusedAs returns a BrokenAnswer error.
func RefusedAs(code, cause, detail string) error {
	published, ok := fault.ByName(code)
	if !ok {
		return BrokenAnswer("unknown_code")
	}
	return &outcome.Error{Kind: outcome.Refused, Code: published, Cause: cause, Detail: detail}
}

// WaitsFor returns the error for a call that the provider cannot perform yet, because it has not
// finished a task. The call has changed nothing, and a later call can succeed.
func WaitsFor(cause, detail string) error {
	return &outcome.Error{Kind: outcome.NotReady, Cause: cause, Detail: detail}
}
