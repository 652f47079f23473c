// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

func signInOut(s ports.SignIn) *proto.SignIn {
	return &proto.SignIn{
		Tenant: string(s.Tenant), State: s.State, Nonce: s.Nonce,
		Verifier: []byte(s.Verifier.Reveal()), Redirect: s.Redirect,
	}
}

func signInIn(s *proto.SignIn) ports.SignIn {
	return ports.SignIn{
		Tenant: tenant.GUID(s.GetTenant()), State: s.GetState(), Nonce: s.GetNonce(),
		Verifier: secret.New(string(s.GetVerifier())), Redirect: s.GetRedirect(),
	}
}

func administratorOut(a tenant.Administrator) *proto.AdministratorAnswer {
	return &proto.AdministratorAnswer{Tenant: string(a.Tenant), Address: a.Address, Name: a.Name}
}

func administratorIn(a *proto.AdministratorAnswer) tenant.Administrator {
	return tenant.Administrator{Tenant: tenant.GUID(a.GetTenant()), Address: a.GetAddress(), Name: a.GetName()}
}

func profileOut(p tenant.Profile) *proto.TenantProfile {
	return &proto.TenantProfile{Name: p.Name, BuiltinDomain: p.BuiltinDomain, DefaultDomain: p.DefaultDomain}
}

func profileIn(p *proto.TenantProfile) tenant.Profile {
	return tenant.Profile{Name: p.GetName(), BuiltinDomain: p.GetBuiltinDomain(), DefaultDomain: p.GetDefaultDomain()}
}

func domainOut(d domain.Platform) *proto.PlatformDomain {
	return &proto.PlatformDomain{Name: d.Name, Verified: d.Verified, Default: d.Default, MailEnabled: d.MailEnabled}
}

func domainIn(d *proto.PlatformDomain) domain.Platform {
	return domain.Platform{Name: d.GetName(), Verified: d.GetVerified(), Default: d.GetDefault(), MailEnabled: d.GetMailEnabled()}
}

func recordOut(r dns.Record) *proto.Record {
	return &proto.Record{Type: string(r.Type), Name: r.Name, Content: r.Content, Preference: int64(r.Preference), Ttl: int64(r.TTL)}
}

func recordIn(r *proto.Record) dns.Record {
	return dns.Record{Type: dns.Type(r.GetType()), Name: r.GetName(), Content: r.GetContent(), Preference: int(r.GetPreference()), TTL: int(r.GetTtl())}
}

func recordsOut(r domain.Records) *proto.RecordsAnswer {
	return &proto.RecordsAnswer{Verification: each(r.Verification, recordOut), Service: each(r.Service, recordOut)}
}

func recordsIn(r *proto.RecordsAnswer) domain.Records {
	return domain.Records{Verification: each(r.GetVerification(), recordIn), Service: each(r.GetService(), recordIn)}
}

func progressOut(p tenant.Progress) *proto.Progress {
	return &proto.Progress{Status: string(p.Status), Step: string(p.Step), Message: p.Message}
}

func progressIn(p *proto.Progress) tenant.Progress {
	return tenant.Progress{Status: tenant.Bootstrap(p.GetStatus()), Step: tenant.BootstrapStep(p.GetStep()), Message: clean(p.GetMessage())}
}

func signingOut(s dns.Signing) *proto.DomainSigning {
	return &proto.DomainSigning{Enabled: s.Enabled, Selector1: recordOut(s.Selector1), Selector2: recordOut(s.Selector2)}
}

func signingIn(s *proto.DomainSigning) dns.Signing {
	return dns.Signing{Enabled: s.GetEnabled(), Selector1: recordIn(s.GetSelector1()), Selector2: recordIn(s.GetSelector2())}
}

func mailboxOut(m mailbox.Platform) *proto.SharedMailbox {
	return &proto.SharedMailbox{
		ObjectId: m.ObjectID, DisplayName: m.DisplayName, Address: m.Address, PrincipalName: m.PrincipalName,
		Alias: m.Alias, AccountEnabled: m.AccountEnabled, CreatedAt: timeOut(m.CreatedAt),
	}
}

func mailboxIn(m *proto.SharedMailbox) mailbox.Platform {
	return mailbox.Platform{
		ObjectID: m.GetObjectId(), DisplayName: m.GetDisplayName(), Address: m.GetAddress(), PrincipalName: m.GetPrincipalName(),
		Alias: m.GetAlias(), AccountEnabled: m.GetAccountEnabled(), CreatedAt: timeIn(m.GetCreatedAt()),
	}
}

func ruleOut(r sendlimit.Rule) *proto.SendRule {
	return &proto.SendRule{Id: r.ID, Name: r.Name, Enabled: r.Enabled, Lists: r.Lists, Made: r.Made, Written: r.Written, Altered: r.Altered}
}

func ruleIn(r *proto.SendRule) sendlimit.Rule {
	return sendlimit.Rule{
		ID: r.GetId(), Name: r.GetName(), Enabled: r.GetEnabled(), Lists: r.GetLists(), Made: r.GetMade(), Written: r.GetWritten(),
		Altered: r.GetAltered(),
	}
}

func sentOut(s sendlimit.Sent) *proto.SentMessage {
	return &proto.SentMessage{Message: s.Message, Sender: s.Sender, At: timeOut(s.At), Refused: s.Refused}
}

func sentIn(s *proto.SentMessage) sendlimit.Sent {
	return sendlimit.Sent{Message: s.GetMessage(), Sender: s.GetSender(), At: timeIn(s.GetAt()), Refused: s.GetRefused()}
}

func traceOut(t sendlimit.Trace) *proto.SentAnswer {
	return &proto.SentAnswer{Sent: each(t.Sent, sentOut), Next: t.Next}
}

func traceIn(a *proto.SentAnswer) sendlimit.Trace {
	return sendlimit.Trace{Sent: each(a.GetSent(), sentIn), Next: a.GetNext()}
}
