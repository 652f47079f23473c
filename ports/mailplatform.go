// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// MailPlatform is the mail platform: consent, the operator's application, and access to tenants.
type MailPlatform interface {
	Consent
	// Check tests the operator's application and credential without a customer's tenant. It fails
	// with service_unavailable if a setting is missing or invalid, and with access_denied if the
	// platform rejects the application or credential.
	Check(ctx context.Context) error
	// For returns the client of one tenant. It makes no call.
	For(t tenant.GUID) MailTenant
}

// PlatformFacts returns the plugin's description of its mail platform. It keeps the description
// until the plugin is upgraded, so later calls do not need the plugin. It fails with an
// outcome.Error if it has no description yet and the plugin does not answer.
type PlatformFacts interface {
	Facts(ctx context.Context) (platform.Facts, error)
}

// WriteGuard runs write if the caller may still write, and returns the error of write. Otherwise it
// returns an error of its own and does not run write.
type WriteGuard func(ctx context.Context, write func(context.Context) error) error

// Fence returns copies of ports that run each write inside a guard. They do not guard reads.
type Fence interface {
	Mail(p MailPlatform, guard WriteGuard) MailPlatform
	DNS(p DNSProvider, guard WriteGuard) DNSProvider
}

// MailTenant is one tenant at the mail platform.
type MailTenant interface {
	TenantDirectory
	MailServer
	Mailboxes
	SendRules
	SendTrace
}

// Consent proves that an administrator of a tenant agrees to connect the tenant.
type Consent interface {
	// ConsentURL returns the URL at which an administrator approves the application. The platform
	// then redirects the browser to the URL redirect, with state.
	ConsentURL(ctx context.Context, state, redirect string) (string, error)
	// Granted parses the raw query of the redirect from ConsentURL, and returns the tenant that the
	// query claims. The claim is not proven yet. Granted fails with consent_declined, or with
	// invalid_request if the query is invalid.
	Granted(ctx context.Context, query string) (tenant.GUID, error)
	// SignInURL returns the URL at which the administrator signs in to exactly the tenant s.Tenant.
	SignInURL(ctx context.Context, s SignIn) (string, error)
	// Administrator redeems the code of the sign-in and proves the tenant and the role. It fails
	// with not_an_administrator, or with consent_declined if the tenant has not given its consent.
	// It fails with connect_link_invalid if the tenant or the nonce differs from s, or if the code
	// was already redeemed.
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
	// Profile returns the tenant's names. It fails with access_denied if the consent was revoked.
	Profile(ctx context.Context) (tenant.Profile, error)
	// Domains lists all custom domains, verified or not, without the platform's built-in domains.
	Domains(ctx context.Context) ([]domain.Platform, error)
	// Domain returns one custom domain. It fails with domain_not_found.
	Domain(ctx context.Context, name string) (domain.Platform, error)
	// AddDomain adds a domain and returns it, or returns the existing domain unchanged. It fails
	// with domain_unavailable or invalid_domain.
	AddDomain(ctx context.Context, name string) (domain.Platform, error)
	// Records returns the DNS records that the platform specifies. Before verification, the field
	// Service of the result may be incomplete or empty.
	Records(ctx context.Context, name string) (domain.Records, error)
	// VerifyDomain asks the platform to check the verification record. A verified domain stays
	// verified. VerifyDomain fails with verification_failed, domain_unavailable or
	// domain_not_found.
	VerifyDomain(ctx context.Context, name string) (domain.Platform, error)
	// EnableMail enables the platform's e-mail service for a verified domain. It fails with
	// domain_not_found or domain_not_verified.
	EnableMail(ctx context.Context, name string) error
	// RemoveDomain removes a domain from the tenant. It does nothing if the tenant has no such
	// domain. It fails with domain_in_use while objects of the tenant use the domain, or while the
	// domain is the default domain.
	RemoveDomain(ctx context.Context, name string) error
}

// MailServer prepares a tenant's mail server and configures DKIM signing for the tenant's domains.
type MailServer interface {
	// Bootstrap performs the next step of the mail server's preparation and returns the progress.
	// It may be repeated at any time.
	Bootstrap(ctx context.Context) (tenant.Progress, error)
	// SMTPAuth returns the organization-wide state of authenticated SMTP, enabled or disabled.
	SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error)
	// EnableSMTPAuth enables authenticated SMTP for the organization. It fails with
	// smtp_auth_not_enabled if the platform does not allow this, and with outcome.NotReady while
	// the change has no effect yet.
	EnableSMTPAuth(ctx context.Context) error
	// MailDomains lists the domains for which the mail server accepts mail.
	MailDomains(ctx context.Context) ([]string, error)
	// Signing returns the DKIM configuration of a domain. It returns the zero value if there is no
	// configuration, or if the configuration has no CNAME records yet.
	Signing(ctx context.Context, name string) (dns.Signing, error)
	// EnsureSigning creates the DKIM configuration without enabling it, and returns it. It returns
	// an existing configuration with CNAME records unchanged. If it completes a configuration that
	// has none, and these records are already published, signing may start. It fails with
	// outcome.NotReady while the mail server does not accept the domain, or while the CNAME records
	// do not exist.
	EnsureSigning(ctx context.Context, name string) (dns.Signing, error)
	// EnableSigning starts DKIM signing. It fails with dkim_not_ready if EnsureSigning has not
	// prepared the domain, or if the platform does not see the CNAME records.
	EnableSigning(ctx context.Context, name string) error
}

// Mailboxes lists, creates, renames and removes shared mailboxes.
type Mailboxes interface {
	// Mailboxes lists all shared mailboxes of the tenant.
	Mailboxes(ctx context.Context) ([]mailbox.Platform, error)
	// UserMailboxes returns the number of licensed user mailboxes, even if the mail server is not
	// prepared.
	UserMailboxes(ctx context.Context) (int, error)
	// EmailLicenses returns the tenant's e-mail licences, assigned or not. It also returns how many
	// external recipients a day the platform allows a tenant with these licences. It works even if
	// the mail server is not prepared.
	EmailLicenses(ctx context.Context) (tenant.Licenses, error)
	// Mailbox returns a shared mailbox by its address. It fails with mailbox_not_found.
	Mailbox(ctx context.Context, address string) (mailbox.Platform, error)
	// CreateMailbox creates a shared mailbox. It may instead return an existing shared mailbox with
	// the address. It fails with invalid_mailbox_email if the address is taken or rejected, and
	// with outcome.NotReady while the mail server does not accept the domain. Unlike other writes,
	// it must not be repeated without a call of Mailbox in between.
	CreateMailbox(ctx context.Context, m mailbox.Spec) (mailbox.Platform, error)
	// OpenSignIn sets the password of the mailbox's account, enables its sign-in and sets its
	// sign-in name to the address. It fails with weak_password, with invalid_mailbox_email if a
	// different account has the sign-in name, or with outcome.NotReady while the directory does not
	// show the account.
	OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error
	// OpenSubmission enables authenticated SMTP for one mailbox. It fails with outcome.NotReady
	// until the mail server shows the mailbox.
	OpenSubmission(ctx context.Context, address string) error
	// Rename changes a mailbox's display name. It fails with mailbox_not_found.
	Rename(ctx context.Context, address, displayName string) error
	// RemoveMailbox deletes a mailbox and its account by the object id, so that a new mailbox with
	// the same address is never removed. It does nothing if neither the directory nor the mail
	// server has the id. It fails with outcome.NotReady while only the mail server has the id: the
	// directory may not show a new account yet, or the mail server may still show a deleted
	// mailbox. The platform can restore both the mailbox and the account for the duration
	// mailbox.Retention.
	RemoveMailbox(ctx context.Context, objectID string) error
}

// SendRules blocks mailboxes of a tenant inside the mail platform. Each scope, a domain or
// sendlimit.TenantWide, has at most one rule, which is found by its name. Block overwrites changes
// that others made to a rule. EnsureRule and Block may fail with mailbox_not_found if one of
// the mailboxes does not exist.
type SendRules interface {
	// EnsureRule returns the rule of a scope. If the rule is missing, EnsureRule creates it,
	// switched off. The platform requires senders in a rule, so a new rule gets these mailboxes as
	// senders. Without mailboxes, EnsureRule creates nothing and returns the zero Rule.
	EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error)
	// Block makes the rule of a scope block exactly these mailboxes, and returns the rule. Without
	// mailboxes it switches the rule off, and does not create a missing rule. It changes nothing if
	// the rule is already correct.
	Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error)
	// Rules lists the managed rules without changing them.
	Rules(ctx context.Context) ([]sendlimit.Rule, error)
	// RemoveRule deletes the rule of a scope. It does nothing if there is no such rule.
	RemoveRule(ctx context.Context, scope string) error
	// RemoveRules deletes all managed rules from the tenant.
	RemoveRules(ctx context.Context) error
}

// SendTrace reads the messages that a tenant's mailboxes sent.
type SendTrace interface {
	// Sent returns a page of the messages of q.Senders. The platform shows messages some minutes
	// late and repeats some rows. Without senders, Sent makes no call.
	Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error)
}
