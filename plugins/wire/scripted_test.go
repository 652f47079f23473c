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

// scripted is a platform that remembers what it was asked and answers with
// every field filled in.
type scripted struct {
	mu      sync.Mutex // a call whose caller has gone away may still run beside the next one
	last    string
	profile func(context.Context) (tenant.Profile, error) // instead, when set
}

type scriptedTenant struct {
	*scripted
	id tenant.GUID
}

func (s *scripted) For(t tenant.GUID) ports.MailTenant { return scriptedTenant{s, t} }

// asked remembers a call; secrets are shown here because they must arrive.
func (s *scripted) asked(method string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case secret.Text:
			args[i] = a.Reveal()
		case ports.SignIn:
			args[i] = fmt.Sprint(a.Tenant, a.State, a.Nonce, a.Verifier.Reveal(), a.Redirect)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = fmt.Sprint(append([]any{method}, args...)...)
}

func filled[T any](at string) (T, error) {
	var v T
	fill(reflect.ValueOf(&v).Elem(), at)
	return v, nil
}

func (s *scripted) Check(context.Context) error {
	s.asked("Check")
	return nil
}

func (s *scripted) ConsentURL(_ context.Context, state, redirect string) (string, error) {
	s.asked("ConsentURL", state, redirect)
	return filled[string]("consent url")
}

func (s *scripted) Granted(_ context.Context, query string) (tenant.GUID, error) {
	s.asked("Granted", query)
	return filled[tenant.GUID]("granted")
}

func (s *scripted) SignInURL(_ context.Context, in ports.SignIn) (string, error) {
	s.asked("SignInURL", in)
	return filled[string]("sign-in url")
}

func (s *scripted) Administrator(_ context.Context, in ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	s.asked("Administrator", in, code)
	return filled[tenant.Administrator]("administrator")
}

func (t scriptedTenant) Profile(ctx context.Context) (tenant.Profile, error) {
	t.asked("Profile", t.id)
	if t.profile != nil {
		return t.profile(ctx)
	}
	return filled[tenant.Profile]("profile")
}

func (t scriptedTenant) Domains(context.Context) ([]domain.Platform, error) {
	t.asked("Domains", t.id)
	return filled[[]domain.Platform]("domains")
}

func (t scriptedTenant) Domain(_ context.Context, name string) (domain.Platform, error) {
	t.asked("Domain", t.id, name)
	return filled[domain.Platform]("domain")
}

func (t scriptedTenant) AddDomain(_ context.Context, name string) (domain.Platform, error) {
	t.asked("AddDomain", t.id, name)
	return filled[domain.Platform]("added")
}

func (t scriptedTenant) Records(_ context.Context, name string) (domain.Records, error) {
	t.asked("Records", t.id, name)
	return filled[domain.Records]("records")
}

func (t scriptedTenant) VerifyDomain(_ context.Context, name string) (domain.Platform, error) {
	t.asked("VerifyDomain", t.id, name)
	return filled[domain.Platform]("verified")
}

func (t scriptedTenant) EnableMail(_ context.Context, name string) error {
	t.asked("EnableMail", t.id, name)
	return nil
}

func (t scriptedTenant) Bootstrap(context.Context) (tenant.Progress, error) {
	t.asked("Bootstrap", t.id)
	return filled[tenant.Progress]("progress")
}

func (t scriptedTenant) SMTPAuth(context.Context) (tenant.SMTPAuth, error) {
	t.asked("SMTPAuth", t.id)
	return filled[tenant.SMTPAuth]("state")
}

func (t scriptedTenant) EnableSMTPAuth(context.Context) error {
	t.asked("EnableSMTPAuth", t.id)
	return nil
}

func (t scriptedTenant) MailDomains(context.Context) ([]string, error) {
	t.asked("MailDomains", t.id)
	return filled[[]string]("mail domains")
}

func (t scriptedTenant) Signing(_ context.Context, name string) (dns.Signing, error) {
	t.asked("Signing", t.id, name)
	return filled[dns.Signing]("signing")
}

func (t scriptedTenant) EnsureSigning(_ context.Context, name string) (dns.Signing, error) {
	t.asked("EnsureSigning", t.id, name)
	return filled[dns.Signing]("ensured")
}

func (t scriptedTenant) EnableSigning(_ context.Context, name string) error {
	t.asked("EnableSigning", t.id, name)
	return nil
}

func (t scriptedTenant) Mailboxes(context.Context) ([]mailbox.Platform, error) {
	t.asked("Mailboxes", t.id)
	return filled[[]mailbox.Platform]("mailboxes")
}

func (t scriptedTenant) UserMailboxes(context.Context) (int, error) {
	t.asked("UserMailboxes", t.id)
	return filled[int]("count")
}

func (t scriptedTenant) EmailLicenses(context.Context) (tenant.Licenses, error) {
	t.asked("EmailLicenses", t.id)
	return filled[tenant.Licenses]("licenses")
}

func (t scriptedTenant) Mailbox(_ context.Context, address string) (mailbox.Platform, error) {
	t.asked("Mailbox", t.id, address)
	return filled[mailbox.Platform]("mailbox")
}

func (t scriptedTenant) CreateMailbox(_ context.Context, m mailbox.Spec) (mailbox.Platform, error) {
	t.asked("CreateMailbox", t.id, m)
	return filled[mailbox.Platform]("created")
}

func (t scriptedTenant) OpenSignIn(_ context.Context, objectID, address string, password secret.Text) error {
	t.asked("OpenSignIn", t.id, objectID, address, password)
	return nil
}

func (t scriptedTenant) OpenSubmission(_ context.Context, address string) error {
	t.asked("OpenSubmission", t.id, address)
	return nil
}

func (t scriptedTenant) Rename(_ context.Context, address, displayName string) error {
	t.asked("Rename", t.id, address, displayName)
	return nil
}

func (t scriptedTenant) EnsureRule(_ context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	t.asked("EnsureRule", t.id, scope, mailboxes)
	return filled[sendlimit.Rule]("ensured")
}

func (t scriptedTenant) Block(_ context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	t.asked("Block", t.id, scope, mailboxes)
	return filled[sendlimit.Rule]("blocks")
}

func (t scriptedTenant) Rules(context.Context) ([]sendlimit.Rule, error) {
	t.asked("Rules", t.id)
	return filled[[]sendlimit.Rule]("rules")
}

func (t scriptedTenant) RemoveRules(context.Context) error {
	t.asked("RemoveRules", t.id)
	return nil
}

func (t scriptedTenant) Sent(_ context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	t.asked("Sent", t.id, q)
	return filled[sendlimit.Trace]("sent")
}
