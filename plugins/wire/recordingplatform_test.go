// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// recordingPlatform is a mail platform that records its last call. Its answers have a value in
// every field.
type recordingPlatform struct {
	mu       sync.Mutex // of lastCall: a call whose caller gave up may still run during the next call
	lastCall string
	profile  func(context.Context) (tenant.Profile, error) // if set, replaces Profile
}

type recordingTenant struct {
	*recordingPlatform
	id tenant.GUID
}

func (p *recordingPlatform) For(t tenant.GUID) ports.MailTenant { return recordingTenant{p, t} }

// record stores the text of a call as lastCall. The text has the plain secrets, so that a test
// notices a wrong secret.
func (p *recordingPlatform) record(method string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case secret.Text:
			args[i] = a.Reveal()
		case ports.SignIn:
			args[i] = fmt.Sprint(a.Tenant, a.State, a.Nonce, a.Verifier.Reveal(), a.Redirect)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastCall = fmt.Sprint(append([]any{method}, args...)...)
}

// newFilled returns a value in which fill has set every field. The error is always nil.
func newFilled[T any](label string) (T, error) {
	var v T
	fill(reflect.ValueOf(&v).Elem(), label)
	return v, nil
}

func newDomain(name, label string) (domain.Platform, error) {
	d, err := newFilled[domain.Platform](label)
	d.Name = name
	return d, err
}

func newMailbox(address, label string) (mailbox.Platform, error) {
	m, err := newFilled[mailbox.Platform](label)
	m.Address = address
	return m, err
}

func (p *recordingPlatform) Check(context.Context) error {
	p.record("Check")
	return nil
}

func (p *recordingPlatform) ConsentURL(_ context.Context, state, redirect string) (string, error) {
	p.record("ConsentURL", state, redirect)
	return newFilled[string]("consent url")
}

func (p *recordingPlatform) Granted(_ context.Context, query string) (tenant.GUID, error) {
	p.record("Granted", query)
	return newFilled[tenant.GUID]("granted")
}

func (p *recordingPlatform) SignInURL(_ context.Context, in ports.SignIn) (string, error) {
	p.record("SignInURL", in)
	return newFilled[string]("sign-in url")
}

func (p *recordingPlatform) Administrator(_ context.Context, in ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	p.record("Administrator", in, code)
	return newFilled[tenant.Administrator]("administrator")
}

func (t recordingTenant) Profile(ctx context.Context) (tenant.Profile, error) {
	t.record("Profile", t.id)
	if t.profile != nil {
		return t.profile(ctx)
	}
	return newFilled[tenant.Profile]("profile")
}

func (t recordingTenant) Domains(context.Context) ([]domain.Platform, error) {
	t.record("Domains", t.id)
	return newFilled[[]domain.Platform]("domains")
}

func (t recordingTenant) Domain(_ context.Context, name string) (domain.Platform, error) {
	t.record("Domain", t.id, name)
	return newDomain(name, "domain")
}

func (t recordingTenant) AddDomain(_ context.Context, name string) (domain.Platform, error) {
	t.record("AddDomain", t.id, name)
	return newDomain(name, "added")
}

func (t recordingTenant) Records(_ context.Context, name string) (domain.Records, error) {
	t.record("Records", t.id, name)
	return newFilled[domain.Records]("records")
}

func (t recordingTenant) VerifyDomain(_ context.Context, name string) (domain.Platform, error) {
	t.record("VerifyDomain", t.id, name)
	return newDomain(name, "verified")
}

func (t recordingTenant) EnableMail(_ context.Context, name string) error {
	t.record("EnableMail", t.id, name)
	return nil
}

func (t recordingTenant) RemoveDomain(_ context.Context, name string) error {
	t.record("RemoveDomain", t.id, name)
	return nil
}

func (t recordingTenant) Bootstrap(context.Context) (tenant.Progress, error) {
	t.record("Bootstrap", t.id)
	return newFilled[tenant.Progress]("progress")
}

func (t recordingTenant) SMTPAuth(context.Context) (tenant.SMTPAuth, error) {
	t.record("SMTPAuth", t.id)
	return newFilled[tenant.SMTPAuth]("state")
}

func (t recordingTenant) EnableSMTPAuth(context.Context) error {
	t.record("EnableSMTPAuth", t.id)
	return nil
}

func (t recordingTenant) MailDomains(context.Context) ([]string, error) {
	t.record("MailDomains", t.id)
	return newFilled[[]string]("mail domains")
}

func (t recordingTenant) Signing(_ context.Context, name string) (dns.Signing, error) {
	t.record("Signing", t.id, name)
	return newFilled[dns.Signing]("signing")
}

func (t recordingTenant) EnsureSigning(_ context.Context, name string) (dns.Signing, error) {
	t.record("EnsureSigning", t.id, name)
	return newFilled[dns.Signing]("ensured")
}

func (t recordingTenant) EnableSigning(_ context.Context, name string) error {
	t.record("EnableSigning", t.id, name)
	return nil
}

func (t recordingTenant) Mailboxes(context.Context) ([]mailbox.Platform, error) {
	t.record("Mailboxes", t.id)
	return newFilled[[]mailbox.Platform]("mailboxes")
}

func (t recordingTenant) UserMailboxes(context.Context) (int, error) {
	t.record("UserMailboxes", t.id)
	return newFilled[int]("count")
}

func (t recordingTenant) EmailLicenses(context.Context) (tenant.Licenses, error) {
	t.record("EmailLicenses", t.id)
	return newFilled[tenant.Licenses]("licenses")
}

func (t recordingTenant) Mailbox(_ context.Context, address string) (mailbox.Platform, error) {
	t.record("Mailbox", t.id, address)
	return newMailbox(address, "mailbox")
}

func (t recordingTenant) CreateMailbox(_ context.Context, m mailbox.Spec) (mailbox.Platform, error) {
	t.record("CreateMailbox", t.id, m)
	return newMailbox(m.Address, "created")
}

func (t recordingTenant) OpenSignIn(_ context.Context, objectID, address string, password secret.Text) error {
	t.record("OpenSignIn", t.id, objectID, address, password)
	return nil
}

func (t recordingTenant) OpenSubmission(_ context.Context, address string) error {
	t.record("OpenSubmission", t.id, address)
	return nil
}

func (t recordingTenant) Rename(_ context.Context, address, displayName string) error {
	t.record("Rename", t.id, address, displayName)
	return nil
}

func (t recordingTenant) RemoveMailbox(_ context.Context, objectID string) error {
	t.record("RemoveMailbox", t.id, objectID)
	return nil
}

func (t recordingTenant) EnsureRule(_ context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	t.record("EnsureRule", t.id, scope, mailboxes)
	return newFilled[sendlimit.Rule]("ensured")
}

func (t recordingTenant) Block(_ context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	t.record("Block", t.id, scope, mailboxes)
	return newFilled[sendlimit.Rule]("blocks")
}

func (t recordingTenant) Rules(context.Context) ([]sendlimit.Rule, error) {
	t.record("Rules", t.id)
	return newFilled[[]sendlimit.Rule]("rules")
}

func (t recordingTenant) RemoveRule(_ context.Context, scope string) error {
	t.record("RemoveRule", t.id, scope)
	return nil
}

func (t recordingTenant) RemoveRules(context.Context) error {
	t.record("RemoveRules", t.id)
	return nil
}

func (t recordingTenant) Sent(_ context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	t.record("Sent", t.id, q)
	return newFilled[sendlimit.Trace]("sent")
}
