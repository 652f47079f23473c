// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// Session is the process and the connection that one call uses.
type Session struct {
	Process    *Process
	Connection Connection
	// Done is called with the error of the call, nil after a success. Done may be nil.
	Done func(error)
}

// Opener returns the session for one call. secrets are the secrets of the call that are not part of
// the connection. The Opener can remove them from the output of the plugin. If the Opener fails,
// the call fails with the same error.
type Opener func(ctx context.Context, secrets ...secret.Text) (Session, error)

// MailClient returns a mail platform whose methods call a plugin process through the interceptors.
// The first interceptor is the outermost.
func MailClient(open Opener, interceptors ...Interceptor) ports.MailPlatform {
	return newMailClient(chain{open: open, probeOf: mailProbe, interceptors: interceptors})
}

// mailProbe implements probeOf for mail platforms. It reads the profile of the tenant that the
// write changes.
func mailProbe(write protobuf.Message) (method string, request, reply protobuf.Message) {
	return proto.MailPlatform_Profile_FullMethodName, &proto.TenantRequest{Tenant: Call{request: write}.Tenant()}, new(proto.TenantProfile)
}

// mailClient is the client of the methods that do not belong to one tenant. The methods of
// mailClient and tenantClient convert the reply without checking err first. After a failed call the
// reply is nil, which the generated getters accept.
type mailClient struct {
	chain chain
	rpc   proto.MailPlatformClient
}

func newMailClient(c chain) mailClient { return mailClient{c, proto.NewMailPlatformClient(c)} }

type tenantClient struct {
	rpc    proto.MailPlatformClient
	tenant string
}

func (m mailClient) For(t tenant.GUID) ports.MailTenant { return tenantClient{m.rpc, string(t)} }

func (m mailClient) Check(ctx context.Context) error {
	_, err := m.rpc.Check(ctx, &proto.CheckRequest{})
	return err
}

func (m mailClient) ConsentURL(ctx context.Context, state, redirect string) (string, error) {
	resp, err := m.rpc.ConsentURL(ctx, &proto.ConsentURLRequest{State: state, Redirect: redirect})
	return resp.GetUrl(), err
}

func (m mailClient) Granted(ctx context.Context, query string) (tenant.GUID, error) {
	resp, err := m.rpc.Granted(ctx, &proto.GrantedRequest{Query: query})
	return tenant.GUID(resp.GetTenant()), err
}

func (m mailClient) SignInURL(ctx context.Context, s ports.SignIn) (string, error) {
	resp, err := m.rpc.SignInURL(ctx, &proto.SignInURLRequest{SignIn: signInToProto(s)})
	return resp.GetUrl(), err
}

func (m mailClient) Administrator(ctx context.Context, s ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	resp, err := m.rpc.Administrator(ctx, &proto.AdministratorRequest{
		SignIn: signInToProto(s), Code: []byte(code.Reveal()), Tenant: string(s.Tenant),
	})
	return administratorFromProto(resp), err
}

// request returns the request of a method whose only argument is the tenant.
func (t tenantClient) request() *proto.TenantRequest { return &proto.TenantRequest{Tenant: t.tenant} }

// domainRequest returns the request of a method whose arguments are the tenant and a domain.
func (t tenantClient) domainRequest(name string) *proto.DomainRequest {
	return &proto.DomainRequest{Tenant: t.tenant, Name: name}
}

func (t tenantClient) Profile(ctx context.Context) (tenant.Profile, error) {
	resp, err := t.rpc.Profile(ctx, t.request())
	return profileFromProto(resp), err
}

func (t tenantClient) Domains(ctx context.Context) ([]domain.Platform, error) {
	resp, err := t.rpc.Domains(ctx, t.request())
	return convertList(resp.GetDomains(), domainFromProto), err
}

func (t tenantClient) Domain(ctx context.Context, name string) (domain.Platform, error) {
	resp, err := t.rpc.Domain(ctx, t.domainRequest(name))
	return domainFromProto(resp), err
}

func (t tenantClient) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	resp, err := t.rpc.AddDomain(ctx, t.domainRequest(name))
	return domainFromProto(resp), err
}

func (t tenantClient) Records(ctx context.Context, name string) (domain.Records, error) {
	resp, err := t.rpc.Records(ctx, t.domainRequest(name))
	return recordsFromProto(resp), err
}

func (t tenantClient) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	resp, err := t.rpc.VerifyDomain(ctx, t.domainRequest(name))
	return domainFromProto(resp), err
}

func (t tenantClient) EnableMail(ctx context.Context, name string) error {
	_, err := t.rpc.EnableMail(ctx, t.domainRequest(name))
	return err
}

func (t tenantClient) RemoveDomain(ctx context.Context, name string) error {
	_, err := t.rpc.RemoveDomain(ctx, t.domainRequest(name))
	return err
}

func (t tenantClient) Bootstrap(ctx context.Context) (tenant.Progress, error) {
	resp, err := t.rpc.Bootstrap(ctx, t.request())
	return progressFromProto(resp), err
}

func (t tenantClient) SMTPAuth(ctx context.Context) (tenant.SMTPAuth, error) {
	resp, err := t.rpc.SMTPAuth(ctx, t.request())
	return tenant.SMTPAuth(resp.GetState()), err
}

func (t tenantClient) EnableSMTPAuth(ctx context.Context) error {
	_, err := t.rpc.EnableSMTPAuth(ctx, t.request())
	return err
}

func (t tenantClient) MailDomains(ctx context.Context) ([]string, error) {
	resp, err := t.rpc.MailDomains(ctx, t.request())
	return resp.GetDomains(), err
}

func (t tenantClient) Signing(ctx context.Context, name string) (dns.Signing, error) {
	resp, err := t.rpc.Signing(ctx, t.domainRequest(name))
	return signingFromProto(resp), err
}

func (t tenantClient) EnsureSigning(ctx context.Context, name string) (dns.Signing, error) {
	resp, err := t.rpc.EnsureSigning(ctx, t.domainRequest(name))
	return signingFromProto(resp), err
}

func (t tenantClient) EnableSigning(ctx context.Context, name string) error {
	_, err := t.rpc.EnableSigning(ctx, t.domainRequest(name))
	return err
}

func (t tenantClient) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	resp, err := t.rpc.Mailboxes(ctx, t.request())
	return convertList(resp.GetMailboxes(), mailboxFromProto), err
}

func (t tenantClient) UserMailboxes(ctx context.Context) (int, error) {
	resp, err := t.rpc.UserMailboxes(ctx, t.request())
	return int(resp.GetCount()), err
}

func (t tenantClient) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	resp, err := t.rpc.EmailLicenses(ctx, t.request())
	return tenant.Licenses{Paid: int(resp.GetPaid()), Trial: int(resp.GetTrial()), RecipientLimit: int(resp.GetRecipientLimit())}, err
}

func (t tenantClient) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	resp, err := t.rpc.Mailbox(ctx, &proto.MailboxRequest{Tenant: t.tenant, Address: address})
	return mailboxFromProto(resp), err
}

func (t tenantClient) CreateMailbox(ctx context.Context, m mailbox.Spec) (mailbox.Platform, error) {
	resp, err := t.rpc.CreateMailbox(ctx, &proto.CreateMailboxRequest{Tenant: t.tenant, DisplayName: m.DisplayName, Address: m.Address})
	return mailboxFromProto(resp), err
}

func (t tenantClient) OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error {
	_, err := t.rpc.OpenSignIn(ctx, &proto.OpenSignInRequest{Tenant: t.tenant, ObjectId: objectID, Address: address, Password: []byte(password.Reveal())})
	return err
}

func (t tenantClient) OpenSubmission(ctx context.Context, address string) error {
	_, err := t.rpc.OpenSubmission(ctx, &proto.MailboxRequest{Tenant: t.tenant, Address: address})
	return err
}

func (t tenantClient) Rename(ctx context.Context, address, displayName string) error {
	_, err := t.rpc.Rename(ctx, &proto.RenameRequest{Tenant: t.tenant, Address: address, DisplayName: displayName})
	return err
}

func (t tenantClient) RemoveMailbox(ctx context.Context, objectID string) error {
	_, err := t.rpc.RemoveMailbox(ctx, &proto.RemoveMailboxRequest{Tenant: t.tenant, ObjectId: objectID})
	return err
}

func (t tenantClient) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	resp, err := t.rpc.EnsureRule(ctx, &proto.SendRuleRequest{Tenant: t.tenant, Scope: scope, Mailboxes: mailboxes})
	return ruleFromProto(resp), err
}

func (t tenantClient) Block(ctx context.Context, scope string, mailboxes []string) (sendlimit.Rule, error) {
	resp, err := t.rpc.Block(ctx, &proto.SendRuleRequest{Tenant: t.tenant, Scope: scope, Mailboxes: mailboxes})
	return ruleFromProto(resp), err
}

func (t tenantClient) Rules(ctx context.Context) ([]sendlimit.Rule, error) {
	resp, err := t.rpc.Rules(ctx, t.request())
	return convertList(resp.GetRules(), ruleFromProto), err
}

func (t tenantClient) RemoveRule(ctx context.Context, scope string) error {
	_, err := t.rpc.RemoveRule(ctx, &proto.SendRuleRequest{Tenant: t.tenant, Scope: scope})
	return err
}

func (t tenantClient) RemoveRules(ctx context.Context) error {
	_, err := t.rpc.RemoveRules(ctx, t.request())
	return err
}

func (t tenantClient) Sent(ctx context.Context, query sendlimit.TraceQuery) (sendlimit.Trace, error) {
	resp, err := t.rpc.Sent(ctx, &proto.SentRequest{Tenant: t.tenant, From: timeToProto(query.From), To: timeToProto(query.To), Senders: query.Senders, Cursor: query.Cursor})
	return traceFromProto(resp), err
}
