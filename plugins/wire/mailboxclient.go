// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
)

func (t tenantClient) Mailboxes(ctx context.Context) ([]mailbox.Platform, error) {
	a, err := ofTenant(ctx, t, proto.MailPlatformClient.Mailboxes)
	return each(a.GetMailboxes(), mailboxIn), err
}

func (t tenantClient) UserMailboxes(ctx context.Context) (int, error) {
	a, err := ofTenant(ctx, t, proto.MailPlatformClient.UserMailboxes)
	return int(a.GetCount()), err
}

func (t tenantClient) EmailLicenses(ctx context.Context) (tenant.Licenses, error) {
	a, err := ofTenant(ctx, t, proto.MailPlatformClient.EmailLicenses)
	return tenant.Licenses{Paid: int(a.GetPaid()), Trial: int(a.GetTrial())}, err
}

func (t tenantClient) Mailbox(ctx context.Context, address string) (mailbox.Platform, error) {
	a, err := call(ctx, t.open, proto.MailPlatformClient.Mailbox, func(c *proto.Connection) *proto.MailboxRequest {
		return &proto.MailboxRequest{Connection: c, Tenant: t.tenant, Address: address}
	})
	return mailboxIn(a), err
}

func (t tenantClient) CreateMailbox(ctx context.Context, m mailbox.Spec) (mailbox.Platform, error) {
	a, err := call(ctx, t.open, proto.MailPlatformClient.CreateMailbox, func(c *proto.Connection) *proto.CreateMailboxRequest {
		return &proto.CreateMailboxRequest{Connection: c, Tenant: t.tenant, DisplayName: m.DisplayName, Address: m.Address}
	})
	return mailboxIn(a), err
}

func (t tenantClient) OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error {
	_, err := call(ctx, t.open, proto.MailPlatformClient.OpenSignIn, func(c *proto.Connection) *proto.OpenSignInRequest {
		return &proto.OpenSignInRequest{Connection: c, Tenant: t.tenant, ObjectId: objectID, Address: address, Password: []byte(password.Reveal())}
	}, password)
	return err
}

func (t tenantClient) OpenSubmission(ctx context.Context, address string) error {
	_, err := call(ctx, t.open, proto.MailPlatformClient.OpenSubmission, func(c *proto.Connection) *proto.MailboxRequest {
		return &proto.MailboxRequest{Connection: c, Tenant: t.tenant, Address: address}
	})
	return err
}

func (t tenantClient) Rename(ctx context.Context, address, displayName string) error {
	_, err := call(ctx, t.open, proto.MailPlatformClient.Rename, func(c *proto.Connection) *proto.RenameRequest {
		return &proto.RenameRequest{Connection: c, Tenant: t.tenant, Address: address, DisplayName: displayName}
	})
	return err
}
