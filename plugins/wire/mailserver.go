// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// mailServer implements the gRPC service MailPlatform. newPlatform creates the author's
// implementation for a connection.
type mailServer struct {
	proto.UnimplementedMailPlatformServer
	newPlatform func(Connection) (ports.MailPlatform, error)
}

// tenantRequest is the interface of all requests about a tenant.
type tenantRequest interface {
	GetConnection() *proto.Connection
	GetTenant() string
}

// serveTenant is serveCall for a call about one tenant.
func serveTenant[T, A any](s *mailServer, req tenantRequest, run func(ports.MailTenant) (T, error), toProto func(T) *A) (*A, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.MailPlatform) (T, error) {
		return run(p.For(tenant.GUID(req.GetTenant())))
	}, toProto)
}

// serveTenantDone is serveTenant for a call that returns only an error.
func serveTenantDone(s *mailServer, req tenantRequest, run func(ports.MailTenant) error) (*proto.Done, error) {
	return serveTenant(s, req,
		func(t ports.MailTenant) (struct{}, error) { return struct{}{}, run(t) },
		func(struct{}) *proto.Done { return &proto.Done{} })
}

func (s *mailServer) Check(ctx context.Context, req *proto.CheckRequest) (*proto.Done, error) {
	return serveCall(s.newPlatform, req.GetConnection(),
		func(p ports.MailPlatform) (struct{}, error) { return struct{}{}, p.Check(ctx) },
		func(struct{}) *proto.Done { return &proto.Done{} })
}

func urlToProto(u string) *proto.URL { return &proto.URL{Url: u} }

func (s *mailServer) ConsentURL(ctx context.Context, req *proto.ConsentURLRequest) (*proto.URL, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.MailPlatform) (string, error) {
		return p.ConsentURL(ctx, req.GetState(), req.GetRedirect())
	}, urlToProto)
}

func (s *mailServer) Granted(ctx context.Context, req *proto.GrantedRequest) (*proto.GrantedAnswer, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.MailPlatform) (tenant.GUID, error) {
		return p.Granted(ctx, req.GetQuery())
	}, func(t tenant.GUID) *proto.GrantedAnswer { return &proto.GrantedAnswer{Tenant: string(t)} })
}

func (s *mailServer) SignInURL(ctx context.Context, req *proto.SignInURLRequest) (*proto.URL, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.MailPlatform) (string, error) {
		return p.SignInURL(ctx, signInFromProto(req.GetSignIn()))
	}, urlToProto)
}

func (s *mailServer) Administrator(ctx context.Context, req *proto.AdministratorRequest) (*proto.AdministratorAnswer, error) {
	return serveCall(s.newPlatform, req.GetConnection(), func(p ports.MailPlatform) (tenant.Administrator, error) {
		return p.Administrator(ctx, signInFromProto(req.GetSignIn()), secret.New(string(req.GetCode())))
	}, administratorToProto)
}

func (s *mailServer) Mailbox(ctx context.Context, req *proto.MailboxRequest) (*proto.SharedMailbox, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (mailbox.Platform, error) {
		return t.Mailbox(ctx, req.GetAddress())
	}, mailboxToProto)
}

func (s *mailServer) CreateMailbox(ctx context.Context, req *proto.CreateMailboxRequest) (*proto.SharedMailbox, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (mailbox.Platform, error) {
		return t.CreateMailbox(ctx, mailbox.Spec{DisplayName: req.GetDisplayName(), Address: req.GetAddress()})
	}, mailboxToProto)
}

func (s *mailServer) OpenSignIn(ctx context.Context, req *proto.OpenSignInRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error {
		return t.OpenSignIn(ctx, req.GetObjectId(), req.GetAddress(), secret.New(string(req.GetPassword())))
	})
}

func (s *mailServer) OpenSubmission(ctx context.Context, req *proto.MailboxRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error { return t.OpenSubmission(ctx, req.GetAddress()) })
}

func (s *mailServer) Rename(ctx context.Context, req *proto.RenameRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error { return t.Rename(ctx, req.GetAddress(), req.GetDisplayName()) })
}

func (s *mailServer) RemoveMailbox(ctx context.Context, req *proto.RemoveMailboxRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error { return t.RemoveMailbox(ctx, req.GetObjectId()) })
}

func (s *mailServer) Mailboxes(ctx context.Context, req *proto.TenantRequest) (*proto.MailboxesAnswer, error) {
	return serveTenant(s, req, func(t ports.MailTenant) ([]mailbox.Platform, error) { return t.Mailboxes(ctx) },
		func(list []mailbox.Platform) *proto.MailboxesAnswer {
			return &proto.MailboxesAnswer{Mailboxes: convertList(list, mailboxToProto)}
		})
}

func (s *mailServer) UserMailboxes(ctx context.Context, req *proto.TenantRequest) (*proto.UserMailboxesAnswer, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (int, error) { return t.UserMailboxes(ctx) },
		func(n int) *proto.UserMailboxesAnswer { return &proto.UserMailboxesAnswer{Count: int64(n)} })
}

func (s *mailServer) EmailLicenses(ctx context.Context, req *proto.TenantRequest) (*proto.EmailLicensesAnswer, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (tenant.Licenses, error) { return t.EmailLicenses(ctx) },
		func(l tenant.Licenses) *proto.EmailLicensesAnswer {
			return &proto.EmailLicensesAnswer{Paid: int64(l.Paid), Trial: int64(l.Trial), RecipientLimit: int64(l.RecipientLimit)}
		})
}

func (s *mailServer) Profile(ctx context.Context, req *proto.TenantRequest) (*proto.TenantProfile, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (tenant.Profile, error) { return t.Profile(ctx) }, profileToProto)
}

func (s *mailServer) Domains(ctx context.Context, req *proto.TenantRequest) (*proto.DomainsAnswer, error) {
	return serveTenant(s, req, func(t ports.MailTenant) ([]domain.Platform, error) { return t.Domains(ctx) },
		func(list []domain.Platform) *proto.DomainsAnswer {
			return &proto.DomainsAnswer{Domains: convertList(list, domainToProto)}
		})
}

func (s *mailServer) Domain(ctx context.Context, req *proto.DomainRequest) (*proto.PlatformDomain, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (domain.Platform, error) { return t.Domain(ctx, req.GetName()) }, domainToProto)
}

func (s *mailServer) AddDomain(ctx context.Context, req *proto.DomainRequest) (*proto.PlatformDomain, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (domain.Platform, error) { return t.AddDomain(ctx, req.GetName()) }, domainToProto)
}

func (s *mailServer) Records(ctx context.Context, req *proto.DomainRequest) (*proto.RecordsAnswer, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (domain.Records, error) { return t.Records(ctx, req.GetName()) }, recordsToProto)
}

func (s *mailServer) VerifyDomain(ctx context.Context, req *proto.DomainRequest) (*proto.PlatformDomain, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (domain.Platform, error) { return t.VerifyDomain(ctx, req.GetName()) }, domainToProto)
}

func (s *mailServer) EnableMail(ctx context.Context, req *proto.DomainRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error { return t.EnableMail(ctx, req.GetName()) })
}

func (s *mailServer) RemoveDomain(ctx context.Context, req *proto.DomainRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error { return t.RemoveDomain(ctx, req.GetName()) })
}

func (s *mailServer) Bootstrap(ctx context.Context, req *proto.TenantRequest) (*proto.Progress, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (tenant.Progress, error) { return t.Bootstrap(ctx) }, progressToProto)
}

func (s *mailServer) SMTPAuth(ctx context.Context, req *proto.TenantRequest) (*proto.SMTPAuthAnswer, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (tenant.SMTPAuth, error) { return t.SMTPAuth(ctx) },
		func(a tenant.SMTPAuth) *proto.SMTPAuthAnswer { return &proto.SMTPAuthAnswer{State: string(a)} })
}

func (s *mailServer) EnableSMTPAuth(ctx context.Context, req *proto.TenantRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error { return t.EnableSMTPAuth(ctx) })
}

func (s *mailServer) MailDomains(ctx context.Context, req *proto.TenantRequest) (*proto.MailDomainsAnswer, error) {
	return serveTenant(s, req, func(t ports.MailTenant) ([]string, error) { return t.MailDomains(ctx) },
		func(list []string) *proto.MailDomainsAnswer { return &proto.MailDomainsAnswer{Domains: list} })
}

func (s *mailServer) Signing(ctx context.Context, req *proto.DomainRequest) (*proto.DomainSigning, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (dns.Signing, error) { return t.Signing(ctx, req.GetName()) }, signingToProto)
}

func (s *mailServer) EnsureSigning(ctx context.Context, req *proto.DomainRequest) (*proto.DomainSigning, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (dns.Signing, error) { return t.EnsureSigning(ctx, req.GetName()) }, signingToProto)
}

func (s *mailServer) EnableSigning(ctx context.Context, req *proto.DomainRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error { return t.EnableSigning(ctx, req.GetName()) })
}

func (s *mailServer) EnsureRule(ctx context.Context, req *proto.SendRuleRequest) (*proto.SendRule, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (sendlimit.Rule, error) {
		return t.EnsureRule(ctx, req.GetScope(), req.GetMailboxes())
	}, ruleToProto)
}

func (s *mailServer) Block(ctx context.Context, req *proto.SendRuleRequest) (*proto.SendRule, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (sendlimit.Rule, error) {
		return t.Block(ctx, req.GetScope(), req.GetMailboxes())
	}, ruleToProto)
}

func (s *mailServer) Rules(ctx context.Context, req *proto.TenantRequest) (*proto.RulesAnswer, error) {
	return serveTenant(s, req, func(t ports.MailTenant) ([]sendlimit.Rule, error) { return t.Rules(ctx) },
		func(rules []sendlimit.Rule) *proto.RulesAnswer {
			return &proto.RulesAnswer{Rules: convertList(rules, ruleToProto)}
		})
}

func (s *mailServer) RemoveRule(ctx context.Context, req *proto.SendRuleRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error { return t.RemoveRule(ctx, req.GetScope()) })
}

func (s *mailServer) RemoveRules(ctx context.Context, req *proto.TenantRequest) (*proto.Done, error) {
	return serveTenantDone(s, req, func(t ports.MailTenant) error { return t.RemoveRules(ctx) })
}

func (s *mailServer) Sent(ctx context.Context, req *proto.SentRequest) (*proto.SentAnswer, error) {
	return serveTenant(s, req, func(t ports.MailTenant) (sendlimit.Trace, error) {
		return t.Sent(ctx, sendlimit.TraceQuery{
			From: timeFromProto(req.GetFrom()), To: timeFromProto(req.GetTo()), Senders: req.GetSenders(), Cursor: req.GetCursor(),
		})
	}, traceToProto)
}
