// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// opening is how long a session that is not open yet keeps others out. It is
// shorter than the lease of an Idempotency-Key, so that who sends the request
// of a dead process again finds the way free. A request that is slower may find
// another one's session in the place of its own; it has given no link out then.
const opening = 10 * time.Second

// Begin has a mailbox signed in at the platform. The session's row is there
// before the platform is asked, so that of many at once one asks, and no crash
// leaves an unknown session with a link that somebody has.
//
// Refusals, in this order and before the platform is asked:
// integration_not_found, mailbox_not_found, tenant_limit_reached,
// capability_not_supported, mailbox_already_connected_elsewhere,
// oauth_session_pending.
func (s *Service) Begin(ctx context.Context, acc access.Account, id, mailboxID string) (Begun, error) {
	i, sealed, err := s.Integrations.Integration(ctx, acc.ID, id)
	if err != nil {
		return Begun{}, err
	}
	e, err := s.Connections.EligibleMailbox(ctx, acc.ID, i.ID, mailboxID)
	if err != nil {
		return Begun{}, err
	}
	if err := s.may(ctx, acc, i, e); err != nil {
		return Begun{}, err
	}
	at, err := s.reach(i, sealed)
	if err != nil {
		return Begun{}, err
	}
	ctx, cancel := s.detach(ctx)
	defer cancel()
	o, err := s.reserve(ctx, i, e, at)
	if err != nil {
		return Begun{}, err
	}
	return o.open(ctx)
}

// may refuses what is known without asking anybody. Of requests that arrive
// together reserve lets one by.
func (s *Service) may(ctx context.Context, acc access.Account, i integration.Integration, e integration.Eligible) error {
	held, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return err
	}
	if err := acc.MayGrow(held); err != nil {
		return err
	}
	if !s.view(ctx, i).Capabilities.MicrosoftOAuth {
		return fault.CapabilityMissing.With("mailboxes cannot be signed in through this integration")
	}
	if e.Elsewhere {
		return fault.ConnectedElsewhere.With("another integration holds the mailbox")
	}
	return nil
}

// detach lets what has begun go on when its caller has gone.
func (s *Service) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return settling.Detach(ctx, s.limit())
}

func (s *Service) limit() time.Duration { return cmp.Or(s.Limit, workLimit) }

// opener takes a session that has its row from there to its link.
type opener struct {
	*Service
	at         ports.SendingPlatform
	i          integration.Integration
	e          integration.Eligible // as it was before the session
	session    integration.Session
	connection string // the id of its connection, should there be none yet
}

// reserve stores the session's row. Of the requests of this process for one mailbox
// at one integration only one stores a row at a time; reserve refuses the others
// with oauth_session_pending.
func (s *Service) reserve(ctx context.Context, i integration.Integration, e integration.Eligible, at ports.SendingPlatform) (*opener, error) {
	now := s.now()
	id, err := s.newID(now)
	if err != nil {
		return nil, err
	}
	connection, err := s.newID(now)
	if err != nil {
		return nil, err
	}
	// The others would wait for the row lock of this request, each with a connection
	// of the database.
	pair := [2]string{i.ID, e.Mailbox.ID}
	if _, reserving := s.reserving.LoadOrStore(pair, nil); reserving {
		return nil, fault.SessionActive.With("another request begins a session of the mailbox at this integration")
	}
	defer s.reserving.Delete(pair)
	o := &opener{Service: s, at: at, i: i, e: e, connection: connection, session: integration.Session{
		ID: id, IntegrationID: i.ID, MailboxID: e.Mailbox.ID, Status: integration.SessionPending, CreatedAt: now, ExpiresAt: now.Add(opening),
	}}
	if err := s.Connections.BeginSession(ctx, i.AccountID, o.session, connection, now.Add(-opening)); err != nil {
		return nil, err
	}
	failpoint.Hit("integrations.after-begin")
	return o, nil
}

func (o *opener) open(ctx context.Context) (Begun, error) {
	link, err := o.start(ctx)
	if err != nil {
		return Begun{}, o.giveUp(ctx, err)
	}
	b := Begun{Integration: o.i, Mailbox: o.e.Mailbox.Address, Session: o.session, AuthURL: link}
	completing, err := ports.Complete(ctx, b)
	if err != nil {
		return Begun{}, err
	}
	failpoint.Hit("integrations.before-open")
	var saved bool
	err = settling.Store(completing, func(ctx context.Context) error {
		saved, err = o.Connections.SaveSession(ctx, o.i.AccountID, o.session, nil)
		return err
	})
	if err != nil {
		return Begun{}, fmt.Errorf("open session: %w", err)
	}
	if !saved {
		return Begun{}, fault.SessionActive.With("another request has ended this session before its link was made")
	}
	failpoint.Hit("integrations.after-open")
	return b, nil
}

// start asks the platform for a link. What the mailbox's account is like before
// anybody has the link tells later whether somebody signed in.
func (o *opener) start(ctx context.Context) (secret.Text, error) {
	before, err := account(ctx, o.at, o.e.Address())
	if err != nil {
		return secret.Text{}, err
	}
	o.session.Before = before.Mark()
	var in integration.SignIn
	failpoint.Hit("integrations.before-start")
	err = settling.Call(ctx, func(ctx context.Context) error {
		in, err = o.at.StartSignIn(ctx, o.e.Mailbox.Address)
		return err
	})
	failpoint.Hit("integrations.after-start")
	if err != nil {
		return secret.Text{}, err
	}
	if err := o.leads(ctx, in.URL); err != nil {
		return secret.Text{}, err
	}
	o.session = o.session.Open(in, o.now())
	return secret.New(in.URL), nil
}

// leads refuses a link to where the platform's plugin did not say that links
// lead.
func (o *opener) leads(ctx context.Context, link string) error {
	all, err := o.Platforms.Platforms(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(p integration.Provider) bool { return p.ID == o.i.Provider })
	if at < 0 || !integration.AuthURL(link, all[at].AuthHosts) {
		return &outcome.Error{Kind: outcome.Broken, Cause: "auth_url_host", Detail: "the link leads to a host that it may not lead to"}
	}
	return nil
}

// giveUp ends the session and makes the connection what it was. A link that an
// answer got lost with is nobody's: the same request again gets another.
func (o *opener) giveUp(ctx context.Context, why error) error {
	reason := "start_failed"
	if kind := outcome.Of(why); kind != 0 {
		reason = "start_" + kind.String()
	}
	failed := o.session.Failed(reason)
	err := settling.Store(ctx, func(ctx context.Context) error {
		back, err := o.back(ctx, reason)
		if err != nil {
			return err
		}
		_, err = o.Connections.SaveSession(ctx, o.i.AccountID, failed, back)
		return err
	})
	if errors.Is(err, fault.IntegrationNotFound) || errors.Is(err, fault.MailboxNotFound) {
		err = nil // deleted meanwhile, its sessions too
	}
	return errors.Join(o.notice(ctx, o.i.AccountID, o.i.ID, why), err)
}

// back is the connection as it was before the session, nil where it is not pending:
// a session leaves some as they are, and a refresh may have changed it since.
func (o *opener) back(ctx context.Context, reason string) (*integration.Connection, error) {
	e, err := o.Connections.EligibleMailbox(ctx, o.i.AccountID, o.i.ID, o.e.Mailbox.ID)
	if err != nil || e.Connection.Status != integration.ConnectionPending {
		return nil, err
	}
	c := o.e.Back(o.connection, o.i.ID, reason, o.now())
	if c.Status.Stays() { // it had changed when the session began
		c = e.Connection.Failed(reason, o.now())
	}
	return &c, nil
}

// account looks an account up.
func account(ctx context.Context, at ports.SendingPlatform, address string) (a integration.Account, err error) {
	err = settling.Call(ctx, func(ctx context.Context) error {
		a, err = at.Account(ctx, address)
		return err
	})
	return a, err
}
