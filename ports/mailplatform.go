// SPDX-License-Identifier: Apache-2.0

// Package ports lists what tenantry needs from outside. If you come from a
// code base where `ports` means inbound HTTP: here it means what the inside
// needs, written from its side.
//
// Every call takes a context with a deadline. A read changes nothing. A write
// may be repeated harmlessly. A provider call that brings no answer returns an
// *outcome.Error.
package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// MailPlatform is the mail platform: how a tenant is connected to it, and
// what can be done in one that is.
type MailPlatform interface {
	Consent
	// Check asks the platform whether it takes the operator's application
	// and its credential, without any customer's tenant. Refusals:
	// service_unavailable when a setting is missing or makes no sense,
	// access_denied when the platform refuses application or credential.
	Check(ctx context.Context) error
	// For gives the client of one tenant. It calls nobody.
	For(t tenant.GUID) MailTenant
}

// MailTenant is one tenant at the mail platform.
type MailTenant interface {
	TenantDirectory
	MailServer
	Mailboxes
	SendRules
	SendTrace
}

// Consent proves that an administrator of a tenant wants it connected.
type Consent interface {
	// ConsentURL is where an administrator approves the application. The
	// platform sends the browser back to redirect with state.
	ConsentURL(ctx context.Context, state, redirect string) (string, error)
	// Granted reads the platform's answer from the callback's raw query and
	// returns the tenant it claims, which proves nothing yet. Refusals:
	// consent_declined; invalid_request when the query makes no sense.
	Granted(ctx context.Context, query string) (tenant.GUID, error)
	// SignInURL is where the administrator signs in at exactly that tenant.
	SignInURL(ctx context.Context, s SignIn) (string, error)
	// Administrator redeems the sign-in's code and proves tenant and role.
	// Refusals: not_an_administrator; connect_link_invalid when the sign-in
	// is for another tenant, another nonce or was redeemed before.
	Administrator(ctx context.Context, s SignIn, code secret.Text) (tenant.Administrator, error)
}

// SignIn is one sign-in of an administrator: authorization code with PKCE.
type SignIn struct {
	Tenant   tenant.GUID
	State    string
	Nonce    string
	Verifier secret.Text
	Redirect string
}

// TenantDirectory reads and changes a tenant's domains.
type TenantDirectory interface {
	// Profile returns the tenant's names. Refusal: access_denied when the
	// consent is gone.
	Profile(ctx context.Context) (tenant.Profile, error)
	// Domains lists all custom domains, verified or not, without the
	// platform's built-in ones.
	Domains(ctx context.Context) ([]domain.Platform, error)
	// Domain returns one custom domain. Refusal: domain_not_found.
	Domain(ctx context.Context, name string) (domain.Platform, error)
	// AddDomain adds a domain and returns it; one that is there already is
	// returned as it is. Refusals: domain_unavailable, invalid_domain.
	AddDomain(ctx context.Context, name string) (domain.Platform, error)
	// Records returns the DNS records that the platform asks for. Service
	// may be short or empty before verification.
	Records(ctx context.Context, name string) (domain.Records, error)
	// VerifyDomain asks the platform to look for the verification record.
	// A verified domain stays so. Refusals: verification_failed,
	// domain_unavailable, domain_not_found.
	VerifyDomain(ctx context.Context, name string) (domain.Platform, error)
	// EnableMail switches the platform's e-mail service on for a verified
	// domain.
	EnableMail(ctx context.Context, name string) error
}

// MailServer prepares a tenant's mail server and signs its domains.
type MailServer interface {
	// Bootstrap takes the next step towards mail-server automation and says
	// how far it has come. It is safe to repeat at any point.
	Bootstrap(ctx context.Context) (tenant.Progress, error)
	// SMTPAuth returns enabled or disabled.
	SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error)
	// EnableSMTPAuth switches organization-wide authenticated SMTP on.
	// Refusal: smtp_auth_not_enabled when the platform does not allow it.
	EnableSMTPAuth(ctx context.Context) error
	// MailDomains lists the domains that the mail server accepts mail for.
	MailDomains(ctx context.Context) ([]string, error)
	// Signing returns the DKIM configuration of a domain, the zero value
	// when the platform has none.
	Signing(ctx context.Context, name string) (dns.Signing, error)
	// EnsureSigning makes the DKIM configuration, not yet enabled, and
	// returns it; one that is there already is returned as it is.
	EnsureSigning(ctx context.Context, name string) (dns.Signing, error)
	// EnableSigning starts DKIM signing. Refusal: dkim_not_ready when the
	// platform does not see the CNAME records.
	EnableSigning(ctx context.Context, name string) error
}

// Mailboxes lists, makes and renames shared mailboxes.
type Mailboxes interface {
	// Mailboxes lists all shared mailboxes of the tenant.
	Mailboxes(ctx context.Context) ([]mailbox.Platform, error)
	// UserMailboxes counts the tenant's licensed user mailboxes, also while
	// the mail server is not prepared.
	UserMailboxes(ctx context.Context) (int, error)
	// EmailLicenses counts the licences for e-mail that the tenant has, whether
	// or not they are given to somebody, also while the mail server is not
	// prepared.
	EmailLicenses(ctx context.Context) (tenant.Licenses, error)
	// Mailbox finds a shared mailbox by its address. Refusal:
	// mailbox_not_found.
	Mailbox(ctx context.Context, address string) (mailbox.Platform, error)
	// CreateMailbox makes a shared mailbox. Refusals: invalid_mailbox_email
	// when another object holds the address or the platform refuses it.
	// NotReady while the mail server does not accept the domain yet.
	// Unlike other writes it may not be repeated blindly: look first.
	CreateMailbox(ctx context.Context, m mailbox.Spec) (mailbox.Platform, error)
	// OpenSignIn sets the password of the account behind a mailbox, enables
	// its sign-in and makes the address its sign-in name. NotReady while
	// the directory does not show the account yet. Refusal: weak_password.
	OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error
	// OpenSubmission allows authenticated SMTP for one mailbox. NotReady
	// while the mail server does not show it yet.
	OpenSubmission(ctx context.Context, address string) error
	// Rename changes a mailbox's display name. Refusal: mailbox_not_found.
	Rename(ctx context.Context, address, displayName string) error
}

// SendRules blocks mailboxes of a tenant inside the mail platform. There is one
// rule for each scope, a domain or sendlimit.TenantWide, found by its name.
// What others made of a rule is put right, never added to.
type SendRules interface {
	// EnsureRule returns the rule of a scope. One that is not there is made,
	// switched off; as the platform takes none without senders, these are the
	// scope's mailboxes, and without any nothing is made: the zero Rule.
	EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error)
	// Block makes the rule of a scope block exactly these mailboxes and returns
	// it as it was read back. Without any it is switched off, and one that is
	// not there is not made. A rule that is as it should be is not written.
	Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error)
	// Rules lists our rules as they are, changing nothing. Block would leave
	// those as they are that are right.
	Rules(ctx context.Context) ([]sendlimit.Rule, error)
	// RemoveRules takes all our rules out of the tenant.
	RemoveRules(ctx context.Context) error
}

// SendTrace tells what a tenant's mailboxes sent.
type SendTrace interface {
	// Sent lists what some senders sent, and nothing that others did, a page at
	// a time. The platform shows messages minutes late, and some rows more than
	// once. Without senders nobody is asked.
	Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error)
}
