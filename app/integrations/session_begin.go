// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// openTimeout is how long a session without a link blocks other sessions of the mailbox. It is
// shorter than the lease of an Idempotency-Key, so that a retry after a crash is not blocked. If a
// request takes longer than openTimeout, a different request can replace its session. The slow
// request then fails and returns no link.
const openTimeout = 10 * time.Second

// BeginSignIn starts the sign-in of a mailbox at the platform and returns the link. It stores the
// session before it asks the platform for the link. Therefore a concurrent request asks for no
// second link, unless openTimeout has passed, and every returned link belongs to a stored session.
// If an earlier session with a link has expired but is still pending, BeginSignIn first checks this
// session once more and ends it.
//
// Before BeginSignIn asks for the link, it checks for these errors in this order:
// integration_not_found, mailbox_not_found, tenant_limit_reached, capability_not_supported,
// mailbox_already_connected_elsewhere, oauth_session_pending. It also returns errors of the
// platform.
func (s *Service) BeginSignIn(ctx context.Context, acc access.Account, id, mailboxID string, encoder ports.AnswerEncoder[StartedSession]) (StartedSession, error) {
	i, sealedCredential, err := s.Integrations.Integration(ctx, acc.ID, id)
	if err != nil {
		return StartedSession{}, err
	}
	e, err := s.Connections.EligibleMailbox(ctx, acc.ID, i.ID, mailboxID)
	if err != nil {
		return StartedSession{}, err
	}
	if err := s.checkAllowed(ctx, acc, i, e); err != nil {
		return StartedSession{}, err
	}
	platform, err := s.openPlatform(i, sealedCredential)
	if err != nil {
		return StartedSession{}, err
	}
	ctx, cancel := s.detach(ctx)
	defer cancel()
	opener, err := s.reserve(ctx, sessionCheck{Service: s, integration: i, sealedCredential: sealedCredential, eligible: e}, platform)
	if err != nil {
		return StartedSession{}, err
	}
	return opener.openSession(ctx, encoder)
}

// checkAllowed makes the checks that need no call to the platform. If several concurrent requests
// pass these checks, reserve accepts only one of the requests.
func (s *Service) checkAllowed(ctx context.Context, acc access.Account, i integration.Integration, e integration.EligibleMailbox) error {
	tenantCount, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return err
	}
	if err := acc.CheckMayGrow(tenantCount); err != nil {
		return err
	}
	capabilities, err := s.capabilities(ctx, i)
	if err != nil {
		return err
	}
	if !capabilities.OAuth {
		return fault.CapabilityMissing.With("mailboxes cannot be signed in through this integration")
	}
	if e.HeldElsewhere {
		return fault.ConnectedElsewhere.With("the mailbox is connected through another integration")
	}
	return nil
}

func (s *Service) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return reconcile.Detach(ctx, s.timeout())
}

func (s *Service) timeout() time.Duration { return cmp.Or(s.Timeout, workTimeout) }

// sessionOpener gets the link of a session whose row is stored.
type sessionOpener struct {
	*Service
	platform     ports.SendingPlatform
	integration  integration.Integration
	eligible     integration.EligibleMailbox // as read before the session was stored
	session      integration.Session
	connectionID string // id of the new connection, if the mailbox has none yet
}

// reserve ends an expired session (see endEarlier) and stores the row of the new session. In this
// process, only one request at a time stores a row for a mailbox at an integration. reserve refuses
// the other requests with oauth_session_pending. earlier has the integration and the mailbox.
// endEarlier reads its session.
func (s *Service) reserve(ctx context.Context, earlier sessionCheck, platform ports.SendingPlatform) (*sessionOpener, error) {
	i := earlier.integration
	// Without this check the other requests would wait for a row lock, and each would hold a
	// database connection.
	pair := [2]string{i.ID, earlier.eligible.Mailbox.ID}
	if _, reserving := s.reservations.LoadOrStore(pair, nil); reserving {
		return nil, fault.SessionActive.With("another request begins a session of the mailbox at this integration")
	}
	defer s.reservations.Delete(pair)
	e, err := earlier.endEarlier(ctx)
	if err != nil {
		return nil, err
	}
	now := s.now()
	id, err := ident.NewFrom(s.Random, now)
	if err != nil {
		return nil, err
	}
	connectionID, err := ident.NewFrom(s.Random, now)
	if err != nil {
		return nil, err
	}
	opener := &sessionOpener{Service: s, platform: platform, integration: i, eligible: e, connectionID: connectionID, session: integration.Session{
		ID: id, IntegrationID: i.ID, MailboxID: e.Mailbox.ID, Status: integration.SessionPending, CreatedAt: now, ExpiresAt: now.Add(openTimeout),
	}}
	if err := s.Connections.BeginSession(ctx, i.AccountID, opener.session, connectionID, now.Add(-openTimeout)); err != nil {
		return nil, err
	}
	return opener, nil
}

// endEarlier ends a session of the mailbox that has expired but is still pending. It first checks
// the session at the platform, because a person may have signed in since the last check. It returns
// the mailbox with the resulting connection. It does not end a session without a link, because
// BeginSession replaces that session.
func (sc sessionCheck) endEarlier(ctx context.Context) (_ integration.EligibleMailbox, err error) {
	owner, found := sc.integration.AccountID, false
	sc.session, found, err = sc.Connections.PendingSession(ctx, owner, sc.integration.ID, sc.eligible.Mailbox.ID)
	if err != nil || !found || !sc.session.Opened || sc.now().Before(sc.session.ExpiresAt) {
		return sc.eligible, err
	}
	sc.final = true
	if err := sc.endExpiredSession(ctx); err != nil {
		return sc.eligible, err
	}
	return sc.Connections.EligibleMailbox(ctx, owner, sc.integration.ID, sc.eligible.Mailbox.ID)
}

// openSession gets the link from the platform and stores the session with the answer.
func (o *sessionOpener) openSession(ctx context.Context, encoder ports.AnswerEncoder[StartedSession]) (StartedSession, error) {
	link, err := o.requestLink(ctx)
	if err != nil {
		return StartedSession{}, o.failSession(ctx, err)
	}
	result := StartedSession{Integration: o.integration, Mailbox: o.eligible.Mailbox.Address, Session: o.session, AuthURL: link}
	storedAnswer, err := encoder.Encode(result)
	if err != nil {
		return StartedSession{}, o.failSession(ctx, err)
	}
	var saved bool
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		saved, err = o.Connections.SaveSession(ctx, o.integration.AccountID, o.session, nil, storedAnswer)
		return err
	})
	if err != nil {
		return StartedSession{}, fmt.Errorf("open session: %w", err)
	}
	if !saved {
		return StartedSession{}, fault.FromStore(fault.SessionActive.With("another request has ended this session before its link was made"))
	}
	return result, nil
}

// requestLink asks the platform for a link. Before that, requestLink puts the mark of the mailbox's
// account (see integration.Account.Mark) into the session. If a later check finds a connected
// account with a different mark, the session counts as connected.
func (o *sessionOpener) requestLink(ctx context.Context) (secret.Text, error) {
	account, err := fetchAccount(ctx, o.platform, o.eligible.Address())
	if err != nil {
		return secret.Text{}, err
	}
	o.session.PreviousMark = account.Mark()
	var signIn integration.SignIn
	err = reconcile.Call(ctx, func(ctx context.Context) error {
		signIn, err = o.platform.StartSignIn(ctx, o.eligible.Mailbox.Address)
		return err
	})
	if err != nil {
		return secret.Text{}, err
	}
	if err := o.checkLinkHost(ctx, signIn.URL); err != nil {
		return secret.Text{}, err
	}
	o.session = o.session.WithSignIn(signIn, o.now())
	return secret.New(signIn.URL), nil
}

// checkLinkHost refuses a link to a host that the platform's plugin has not declared.
func (o *sessionOpener) checkLinkHost(ctx context.Context, link string) error {
	provider, err := o.Platforms.Platform(ctx, o.integration.Provider)
	if err != nil {
		return err
	}
	if !integration.IsAllowedAuthURL(link, provider.AuthHosts) {
		return &outcome.Error{Kind: outcome.Broken, Cause: "auth_url_host", Detail: "the host of the sign-in link is not one that the plugin has declared"}
	}
	return nil
}

// failSession ends the session and restores the connection. If the platform created a link but its
// answer was lost, nobody has the link, and a retry gets a new one.
func (o *sessionOpener) failSession(ctx context.Context, cause error) error {
	reason := "start_failed"
	if kind := outcome.KindOf(cause); kind != 0 {
		reason = "start_" + kind.String()
	}
	failed := o.session.WithFailure(reason)
	err := reconcile.Store(ctx, func(ctx context.Context) error {
		restored, err := o.restoredConnection(ctx, reason)
		if err != nil {
			return err
		}
		_, err = o.Connections.SaveSession(ctx, o.integration.AccountID, failed, restored, nil)
		return err
	})
	if errors.Is(err, fault.IntegrationNotFound) || errors.Is(err, fault.MailboxNotFound) {
		err = nil // the integration or the mailbox was deleted, together with the session
	}
	return errors.Join(o.recordRejection(ctx, o.integration, o.session.CreatedAt, cause), err)
}

// restoredConnection returns the connection to store when the session failed to start. It is the
// connection as it was before the session. A connection that was new or pending becomes failed.
// restoredConnection returns nil if the stored connection is not pending: either the session has
// not changed the connection, or the connection has changed since.
func (o *sessionOpener) restoredConnection(ctx context.Context, reason string) (*integration.Connection, error) {
	e, err := o.Connections.EligibleMailbox(ctx, o.integration.AccountID, o.integration.ID, o.eligible.Mailbox.ID)
	if err != nil || e.Connection.Status != integration.ConnectionPending {
		return nil, err
	}
	c := o.eligible.AfterFailedStart(o.connectionID, o.integration.ID, reason, o.now())
	if c.Status.UnaffectedBySession() { // another request changed the connection between the read of o.eligible and BeginSession
		c = e.Connection.WithFailure(reason, o.now())
	}
	return &c, nil
}

func fetchAccount(ctx context.Context, platform ports.SendingPlatform, address string) (a integration.Account, err error) {
	err = reconcile.Call(ctx, func(ctx context.Context) error {
		a, err = platform.Account(ctx, address)
		return err
	})
	return a, err
}
