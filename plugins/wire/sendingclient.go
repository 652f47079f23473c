// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// Sending is a sending platform behind a plugin process.
func Sending(open Opener) ports.SendingPlatform { return sendingClient{open} }

type sendingClient struct{ open Opener }

// sendingRPC is one method of the generated client.
type sendingRPC[Q, A any] func(proto.SendingPlatformClient, context.Context, *Q, ...grpc.CallOption) (*A, error)

func callSending[Q, A any](ctx context.Context, c sendingClient, method sendingRPC[Q, A], q func(*proto.Connection) *Q) (*A, error) {
	return during(ctx, c.open, func(ctx context.Context, s Session) (*A, error) {
		return method(proto.NewSendingPlatformClient(s.Process.conn), ctx, q(connectionOut(s.Connection)))
	})
}

func (c sendingClient) Check(ctx context.Context) (integration.Reach, error) {
	a, err := callSending(ctx, c, proto.SendingPlatformClient.Check, func(c *proto.Connection) *proto.SendingCheckRequest {
		return &proto.SendingCheckRequest{Connection: c}
	})
	return reachIn(a), err
}

func (c sendingClient) Account(ctx context.Context, address string) (integration.Account, error) {
	a, err := callSending(ctx, c, proto.SendingPlatformClient.Account, func(c *proto.Connection) *proto.SendingAccountRequest {
		return &proto.SendingAccountRequest{Connection: c, Address: address}
	})
	return accountIn(a), err
}

func (c sendingClient) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	a, err := callSending(ctx, c, proto.SendingPlatformClient.Accounts, func(c *proto.Connection) *proto.SendingAccountsRequest {
		return &proto.SendingAccountsRequest{Connection: c, Cursor: cursor}
	})
	return pageIn(a), err
}

func (c sendingClient) StartSignIn(ctx context.Context, address string) (integration.SignIn, error) {
	a, err := callSending(ctx, c, proto.SendingPlatformClient.StartSignIn, func(c *proto.Connection) *proto.StartSignInRequest {
		return &proto.StartSignInRequest{Connection: c, Address: address}
	})
	return sessionIn(a), err
}

func (c sendingClient) SignIn(ctx context.Context, session string) (integration.Progress, error) {
	a, err := callSending(ctx, c, proto.SendingPlatformClient.SignIn, func(c *proto.Connection) *proto.SendingSignInRequest {
		return &proto.SendingSignInRequest{Connection: c, Session: session}
	})
	return signInProgressIn(a), err
}

func (c sendingClient) Remove(ctx context.Context, account string) error {
	_, err := callSending(ctx, c, proto.SendingPlatformClient.Remove, func(c *proto.Connection) *proto.RemoveRequest {
		return &proto.RemoveRequest{Connection: c, Account: account}
	})
	return err
}
