// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// openTimeout is how long a session without a link blocks other sessions of the mailbox. It is
// shorter than the lease of an Idempotency-Key, so that a retry after a crash is not blocked. If a
// request takes longer, a different request can replace its session. The slow request has then
// returned no link.
const openTimeout = 10 * time.Second

// Begin starts the sign-in of a mailbox at the platform and returns the link. It stores the session
// before it calls the platform. Of concurrent requests only one calls the platform. Even after a
// crash, every valid link belongs to a stored session. An earlier session of the mailbox that has
// expired is checked for the last time and ended.
//
// It fails, in this order and before the platform is called, with integration_not_found,
// mailbox_not_found, tenant_limit_reached, capability_not_supported,
// mailbox_already_connected_elsewhere, or oauth_session_pending. It then fails with an error of the
// platform.
func (s *Service) Begin(ctx context.Context, acc access.Account, id, mailboxID string, answer ports.Answer[Begun]) (Begun, error) {
	i, sealed, err := s.Integrations.Integration(ctx, acc.ID, id)
	if err != nil {
		return Begun{}, err
	}
	e, err := s.Connections.EligibleMailbox(ctx, acc.ID, i.ID, mailboxID)
	if err != nil {
		return Begun{}, err
	}
	if err := s.checkAllowed(ctx, acc, i, e); err != nil {
		return Begun{}, err
	}
	platform, err := s.openPlatform(i, sealed)
	if err != nil {
		return Begun{}, err
	}
	ctx, cancel := s.detach(ctx)
	defer cancel()
	o, err := s.reserve(ctx, sessionCheck{Service: s, integration: i, sealed: sealed, eligible: e}, platform)
	if err != nil {
		return Begun{}, err
	}
	return o.open(ctx, answer)
}

// checkAllowed makes the checks that need only stored state. If several requests pass them
// concurrently, reserve accepts one.
func (s *Service) checkAllowed(ctx context.Context, acc access.Account, i integration.Integration, e integration.Eligible) error {
	tenantCount, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return err
	}
	if err := acc.MayGrow(tenantCount); err != nil {
		return err
	}
	if !s.view(ctx, i).Capabilities.OAuth {
		return fault.CapabilityMissing.With("mailboxes cannot be signed in through this integration")
	}
	if e.Elsewhere {
		return fault.ConnectedElsewhere.With("another integration holds the mailbox")
	}
	return nil
}

// detach returns a context that survives the caller's cancellation, and its cancel function.
func (s *Service) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return reconcile.Detach(ctx, s.limit())
}

func (s *Service) limit() time.Duration { return cmp.Or(s.Limit, workLimit) }

// sessionOpener takes a session from its stored row to its link.
type sessionOpener struct {
	*Service
	platform     ports.SendingPlatform
	integration  integration.Integration
	eligible     integration.Eligible // as read before the session
	session      integration.Session
	connectionID string // id for a new connection, if there is none yet
}

// reserve stores the session's row. In this process, only one request at a time stores a row for a
// mailbox at an integration. reserve refuses the others with oauth_session_pending. earlier has the
// integration and the mailbox, and no session yet.
func (s *Service) reserve(ctx context.Context, earlier sessionCheck, platform ports.SendingPlatform) (*sessionOpener, error) {
	i := earlier.integration
	// Without this check the other requests would wait for a row lock, each with a database
	// connection.
	pair := [2]string{i.ID, earlier.eligible.Mailbox.ID}
	if _, reserving := s.reserving.LoadOrStore(pair, nil); reserving {
		return nil, fault.SessionActive.With("another request begins a session of the mailbox at this integration")
	}
	defer s.reserving.Delete(pair)
	e, err := earlier.endEarlier(ctx)
	if err != nil {
		return nil, err
	}
	now := s.now()
	id, err := s.newID(now)
	if err != nil {
		return nil, err
	}
	connectionID, err := s.newID(now)
	if err != nil {
		return nil, err
	}
	o := &sessionOpener{Service: s, platform: platform, integration: i, eligible: e, connectionID: connectionID, session: integration.Session{
		ID: id, IntegrationID: i.ID, MailboxID: e.Mailbox.ID, Status: integration.SessionPending, CreatedAt: now, ExpiresAt: now.Add(openTimeout),
	}}
	if err := s.Connections.BeginSession(ctx, i.AccountID, o.session, connectionID, now.Add(-openTimeout)); err != nil {
		return nil, err
	}
	return o, nil
}

// endEarlier ends a session of the mailbox that has expired but is still pending, after a check at
// the platform: a person may have signed in since the last check. It returns the mailbox as it is
// afterwards. A session without a link is left to BeginSession.
func (sc sessionCheck) endEarlier(ctx context.Context) (_ integration.Eligible, err error) {
	owner, found := sc.integration.AccountID, false
	sc.session, found, err = sc.Connections.PendingSession(ctx, owner, sc.integration.ID, sc.eligible.Mailbox.ID)
	if err != nil || !found || !sc.session.Opened || sc.now().Before(sc.session.ExpiresAt) {
		return sc.eligible, err
	}
	sc.final = true
	if err := sc.end(ctx); err != nil {
		return sc.eligible, err
	}
	return sc.Connections.EligibleMailbox(ctx, owner, sc.integration.ID, sc.eligible.Mailbox.ID)
}

func (o *sessionOpener) open(ctx context.Context, answer ports.Answer[Begun]) (Begun, error) {
	link, err := o.start(ctx)
	if err != nil {
		return Begun{}, o.failSession(ctx, err)
	}
	b := Begun{Integration: o.integration, Mailbox: o.eligible.Mailbox.Address, Session: o.session, AuthURL: link}
	completion, err := answer.Completion(b)
	if err != nil {
		return Begun{}, err
	}
	var saved bool
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		saved, err = o.Connections.SaveSession(ctx, o.integration.AccountID, o.session, nil, completion)
		return err
	})
	if err != nil {
		return Begun{}, fmt.Errorf("open session: %w", err)
	}
	if !saved {
		return Begun{}, fault.FromStore(fault.SessionActive.With("another request has ended this session before its link was made"))
	}
	return b, nil
}

// start asks the platform for a link. It stores the mark of the mailbox's account before the link
// exists. A changed mark later proves a sign-in.
func (o *sessionOpener) start(ctx context.Context) (secret.Text, error) {
	before, err := fetchAccount(ctx, o.platform, o.eligible.Address())
	if err != nil {
		return secret.Text{}, err
	}
	o.session.PreviousMark = before.Mark()
	var in integration.SignIn
	err = reconcile.Call(ctx, func(ctx context.Context) error {
		in, err = o.platform.StartSignIn(ctx, o.eligible.Mailbox.Address)
		return err
	})
	if err != nil {
		return secret.Text{}, err
	}
	if err := o.checkLinkHost(ctx, in.URL); err != nil {
		return secret.Text{}, err
	}
	o.session = o.session.Open(in, o.now())
	return secret.New(in.URL), nil
}

// checkLinkHost refuses a link to a host that the platform's plugin has not declared.
func (o *sessionOpener) checkLinkHost(ctx context.Context, link string) error {
	providers, err := o.Platforms.Platforms(ctx)
	if err != nil {
		return err
	}
	index := slices.IndexFunc(providers, func(p integration.Provider) bool { return p.ID == o.integration.Provider })
	if index < 0 || !integration.AuthURL(link, providers[index].AuthHosts) {
		return &outcome.Error{Kind: outcome.Broken, Cause: "auth_url_host", Detail: "the link leads to a host that it may not lead to"}
	}
	return nil
}

// failSession ends the session and restores the connection. If the platform created a link but its
// answer was lost, no one has that link; a retry gets a new one.
func (o *sessionOpener) failSession(ctx context.Context, cause error) error {
	reason := "start_failed"
	if kind := outcome.Of(cause); kind != 0 {
		reason = "start_" + kind.String()
	}
	failed := o.session.Failed(reason)
	err := reconcile.Store(ctx, func(ctx context.Context) error {
		restored, err := o.restoredConnection(ctx, reason)
		if err != nil {
			return err
		}
		_, err = o.Connections.SaveSession(ctx, o.integration.AccountID, failed, restored, nil)
		return err
	})
	if errors.Is(err, fault.IntegrationNotFound) || errors.Is(err, fault.MailboxNotFound) {
		err = nil // deleted in the meantime, together with its sessions
	}
	return errors.Join(o.recordRejection(ctx, o.integration, o.session.CreatedAt, cause), err)
}

// restoredConnection returns the connection as it was before the session. It returns nil if the
// connection is not pending: the session left it unchanged, or a refresh has changed it since.
func (o *sessionOpener) restoredConnection(ctx context.Context, reason string) (*integration.Connection, error) {
	e, err := o.Connections.EligibleMailbox(ctx, o.integration.AccountID, o.integration.ID, o.eligible.Mailbox.ID)
	if err != nil || e.Connection.Status != integration.ConnectionPending {
		return nil, err
	}
	c := o.eligible.StartFailed(o.connectionID, o.integration.ID, reason, o.now())
	if c.Status.UnaffectedBySession() { // another request changed the connection between the read of o.eligible and BeginSession
		c = e.Connection.Failed(reason, o.now())
	}
	return &c, nil
}

// fetchAccount reads the account with this address from the platform.
func fetchAccount(ctx context.Context, platform ports.SendingPlatform, address string) (a integration.Account, err error) {
	err = reconcile.Call(ctx, func(ctx context.Context) error {
		a, err = platform.Account(ctx, address)
		return err
	})
	return a, err
}
