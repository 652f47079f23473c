// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// mailServer calls the author's code.
type mailServer struct {
	proto.UnimplementedMailPlatformServer
	platform func(Connection) (ports.MailPlatform, error)
}

// consent, within and carryOut make the provider for one call and run it.
func consent[T, A any](s *mailServer, c *proto.Connection, do func(ports.MailPlatform) (T, error), out func(T) *A) (*A, error) {
	p, err := s.platform(connectionIn(c))
	if err != nil {
		return nil, toStatus(err)
	}
	t, err := do(p)
	if err != nil {
		return nil, toStatus(err)
	}
	return out(t), nil
}

// request is what every request about a tenant has.
type request interface {
	GetConnection() *proto.Connection
	GetTenant() string
}

func within[T, A any](s *mailServer, q request, do func(ports.MailTenant) (T, error), out func(T) *A) (*A, error) {
	p, err := s.platform(connectionIn(q.GetConnection()))
	if err != nil {
		return nil, toStatus(err)
	}
	t, err := do(p.For(tenant.GUID(q.GetTenant())))
	if err != nil {
		return nil, toStatus(err)
	}
	return out(t), nil
}

func carryOut(s *mailServer, q request, do func(ports.MailTenant) error) (*proto.Done, error) {
	return within(s, q,
		func(t ports.MailTenant) (struct{}, error) { return struct{}{}, do(t) },
		func(struct{}) *proto.Done { return &proto.Done{} })
}

func (s *mailServer) Check(ctx context.Context, q *proto.CheckRequest) (*proto.Done, error) {
	return consent(s, q.GetConnection(),
		func(p ports.MailPlatform) (struct{}, error) { return struct{}{}, p.Check(ctx) },
		func(struct{}) *proto.Done { return &proto.Done{} })
}

func urlOut(u string) *proto.URL { return &proto.URL{Url: u} }

func (s *mailServer) ConsentURL(ctx context.Context, q *proto.ConsentURLRequest) (*proto.URL, error) {
	return consent(s, q.GetConnection(), func(c ports.MailPlatform) (string, error) {
		return c.ConsentURL(ctx, q.GetState(), q.GetRedirect())
	}, urlOut)
}

func (s *mailServer) Granted(ctx context.Context, q *proto.GrantedRequest) (*proto.GrantedAnswer, error) {
	return consent(s, q.GetConnection(), func(c ports.MailPlatform) (tenant.GUID, error) {
		return c.Granted(ctx, q.GetQuery())
	}, func(t tenant.GUID) *proto.GrantedAnswer { return &proto.GrantedAnswer{Tenant: string(t)} })
}

func (s *mailServer) SignInURL(ctx context.Context, q *proto.SignInURLRequest) (*proto.URL, error) {
	return consent(s, q.GetConnection(), func(c ports.MailPlatform) (string, error) {
		return c.SignInURL(ctx, signInIn(q.GetSignIn()))
	}, urlOut)
}

func (s *mailServer) Administrator(ctx context.Context, q *proto.AdministratorRequest) (*proto.AdministratorAnswer, error) {
	return consent(s, q.GetConnection(), func(c ports.MailPlatform) (tenant.Administrator, error) {
		return c.Administrator(ctx, signInIn(q.GetSignIn()), secret.New(string(q.GetCode())))
	}, administratorOut)
}

func (s *mailServer) Mailbox(ctx context.Context, q *proto.MailboxRequest) (*proto.SharedMailbox, error) {
	return within(s, q, func(t ports.MailTenant) (mailbox.Platform, error) {
		return t.Mailbox(ctx, q.GetAddress())
	}, mailboxOut)
}

func (s *mailServer) CreateMailbox(ctx context.Context, q *proto.CreateMailboxRequest) (*proto.SharedMailbox, error) {
	return within(s, q, func(t ports.MailTenant) (mailbox.Platform, error) {
		return t.CreateMailbox(ctx, mailbox.Spec{DisplayName: q.GetDisplayName(), Address: q.GetAddress()})
	}, mailboxOut)
}

func (s *mailServer) OpenSignIn(ctx context.Context, q *proto.OpenSignInRequest) (*proto.Done, error) {
	return carryOut(s, q, func(t ports.MailTenant) error {
		return t.OpenSignIn(ctx, q.GetObjectId(), q.GetAddress(), secret.New(string(q.GetPassword())))
	})
}

func (s *mailServer) OpenSubmission(ctx context.Context, q *proto.MailboxRequest) (*proto.Done, error) {
	return carryOut(s, q, func(t ports.MailTenant) error { return t.OpenSubmission(ctx, q.GetAddress()) })
}

func (s *mailServer) Rename(ctx context.Context, q *proto.RenameRequest) (*proto.Done, error) {
	return carryOut(s, q, func(t ports.MailTenant) error { return t.Rename(ctx, q.GetAddress(), q.GetDisplayName()) })
}

func (s *mailServer) Mailboxes(ctx context.Context, q *proto.TenantRequest) (*proto.MailboxesAnswer, error) {
	return within(s, q, func(t ports.MailTenant) ([]mailbox.Platform, error) { return t.Mailboxes(ctx) },
		func(list []mailbox.Platform) *proto.MailboxesAnswer {
			return &proto.MailboxesAnswer{Mailboxes: each(list, mailboxOut)}
		})
}

func (s *mailServer) UserMailboxes(ctx context.Context, q *proto.TenantRequest) (*proto.UserMailboxesAnswer, error) {
	return within(s, q, func(t ports.MailTenant) (int, error) { return t.UserMailboxes(ctx) },
		func(n int) *proto.UserMailboxesAnswer { return &proto.UserMailboxesAnswer{Count: int64(n)} })
}

func (s *mailServer) EmailLicenses(ctx context.Context, q *proto.TenantRequest) (*proto.EmailLicensesAnswer, error) {
	return within(s, q, func(t ports.MailTenant) (tenant.Licenses, error) { return t.EmailLicenses(ctx) },
		func(l tenant.Licenses) *proto.EmailLicensesAnswer {
			return &proto.EmailLicensesAnswer{Paid: int64(l.Paid), Trial: int64(l.Trial)}
		})
}
