// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// Session is what one call runs on.
type Session struct {
	Process    *Process
	Connection Connection
	// Done is told how the call ended. It may be nil.
	Done func(error)
}

// callLimit bounds a call whose context brings no deadline.
const callLimit = time.Minute

// Opener gives the session of one call. It is told the secrets that the call
// carries besides those of the connection.
type Opener func(ctx context.Context, secrets ...secret.Text) (Session, error)

// Mail is a mail platform behind a plugin process.
func Mail(open Opener) ports.MailPlatform { return mailClient{open} }

type mailClient struct{ open Opener }

type tenantClient struct {
	open   Opener
	tenant string
}

func (m mailClient) For(t tenant.GUID) ports.MailTenant { return tenantClient{m.open, string(t)} }

// rpc is one method of the generated client.
type rpc[Q, A any] func(proto.MailPlatformClient, context.Context, *Q, ...grpc.CallOption) (*A, error)

// call runs one method. The zero answer goes with an error: every generated
// getter takes a nil message.
func call[Q, A any](ctx context.Context, open Opener, method rpc[Q, A], q func(*proto.Connection) *Q, secrets ...secret.Text) (*A, error) {
	return during(ctx, open, func(ctx context.Context, s Session) (*A, error) {
		return method(proto.NewMailPlatformClient(s.Process.conn), ctx, q(connectionOut(s.Connection)))
	}, secrets...)
}

// during runs one call of whatever kind within a session.
func during[A any](ctx context.Context, open Opener, run func(context.Context, Session) (*A, error), secrets ...secret.Text) (*A, error) {
	s, err := open(ctx, secrets...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	a, err := run(sendRequestID(ctx), s)
	err = fromStatus(err)
	if s.Done != nil {
		s.Done(err)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callLimit)
}

func (m mailClient) Check(ctx context.Context) error {
	_, err := call(ctx, m.open, proto.MailPlatformClient.Check, func(c *proto.Connection) *proto.CheckRequest {
		return &proto.CheckRequest{Connection: c}
	})
	return err
}

func (m mailClient) ConsentURL(ctx context.Context, state, redirect string) (string, error) {
	a, err := call(ctx, m.open, proto.MailPlatformClient.ConsentURL, func(c *proto.Connection) *proto.ConsentURLRequest {
		return &proto.ConsentURLRequest{Connection: c, State: state, Redirect: redirect}
	})
	return a.GetUrl(), err
}

func (m mailClient) Granted(ctx context.Context, query string) (tenant.GUID, error) {
	a, err := call(ctx, m.open, proto.MailPlatformClient.Granted, func(c *proto.Connection) *proto.GrantedRequest {
		return &proto.GrantedRequest{Connection: c, Query: query}
	})
	return tenant.GUID(a.GetTenant()), err
}

func (m mailClient) SignInURL(ctx context.Context, s ports.SignIn) (string, error) {
	a, err := call(ctx, m.open, proto.MailPlatformClient.SignInURL, func(c *proto.Connection) *proto.SignInURLRequest {
		return &proto.SignInURLRequest{Connection: c, SignIn: signInOut(s)}
	}, s.Verifier)
	return a.GetUrl(), err
}

func (m mailClient) Administrator(ctx context.Context, s ports.SignIn, code secret.Text) (tenant.Administrator, error) {
	a, err := call(ctx, m.open, proto.MailPlatformClient.Administrator, func(c *proto.Connection) *proto.AdministratorRequest {
		return &proto.AdministratorRequest{Connection: c, SignIn: signInOut(s), Code: []byte(code.Reveal())}
	}, s.Verifier, code)
	return administratorIn(a), err
}
