// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"errors"
	"net/url"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// ConnectSession returns a connect session with its current status. It fails with
// connect_session_not_found.
func (s *Service) ConnectSession(ctx context.Context, owner access.AccountID, id string) (tenant.ConnectSession, error) {
	session, err := s.Sessions.ConnectSession(ctx, owner, id)
	session.Status = session.StatusAt(s.Now())
	return session, err
}

// RenewLink returns a new link of a session, with the lifetime and the return URL of the session's
// first link. The earlier link stops working, even for a browser that has already opened that link.
// RenewLink fails with connect_session_not_found, connect_session_connected, invalid_return_url,
// tenant_limit_reached, or with service_unavailable when no mail platform is configured.
func (s *Service) RenewLink(ctx context.Context, acc access.Account, id string, encoder ports.AnswerEncoder[Link]) (Link, error) {
	session, err := s.Sessions.ConnectSession(ctx, acc.ID, id)
	if err != nil {
		return Link{}, err
	}
	if session.Status == tenant.SessionConnected {
		return Link{}, fault.SessionConnected.With("a tenant was connected through this session")
	}
	if session.ReturnURL != "" {
		settings, err := s.Settings.Settings(ctx, acc.ID)
		if err != nil {
			return Link{}, err
		}
		if err := settings.CheckReturnURL(session.ReturnURL); err != nil {
			return Link{}, err
		}
	}
	link, flow, err := s.newLink(ctx, acc, session)
	if err != nil {
		return Link{}, err
	}
	storedAnswer, err := encoder.Encode(link)
	if err != nil {
		return Link{}, err
	}
	return link, s.Sessions.RenewConnectSession(ctx, session.ID, flow, storedAnswer)
}

// Origin is what a connect page shows about the account that requested the link.
type Origin struct {
	// DisplayName and SupportURL are empty if the operator did not set them.
	DisplayName, SupportURL string
	// ReturnURL is the URL of the page's link back to the caller's site. The query of the URL
	// contains the result of the flow. ReturnURL is empty if the page has no link back.
	ReturnURL string
}

// CallbackOrigin returns the origin of the link whose state is in the callback's query. The link
// may have expired. The origin is empty if the link is unknown.
func (s *Service) CallbackOrigin(ctx context.Context, rawQuery string) (Origin, error) {
	state, sealedHere := s.stateOf(rawQuery)
	if !sealedHere {
		return Origin{}, nil
	}
	return s.originOfLink(ctx, hash(state))
}

// stateOf returns the state in a callback's query. It returns false if this service did not seal
// the state.
func (s *Service) stateOf(rawQuery string) (string, bool) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return "", false
	}
	state := query.Get("state")
	_, _, err = s.unsealState(state)
	return state, err == nil
}

// BrowserOrigin returns the origin of the link to which the browser's cookie belongs. The origin is
// empty if the link is unknown.
func (s *Service) BrowserOrigin(ctx context.Context, cookie secret.Text) (Origin, error) {
	id, err := flowID(cookie)
	if errors.Is(err, fault.ConnectLinkInvalid) {
		return Origin{}, nil
	}
	if err != nil {
		return Origin{}, err
	}
	return s.originOfLink(ctx, id)
}

func (s *Service) originOfLink(ctx context.Context, stateHash [32]byte) (Origin, error) {
	owner, session, err := s.Sessions.ConnectSessionOfLink(ctx, stateHash)
	if errors.Is(err, fault.ConnectSessionUnknown) {
		return Origin{}, nil
	}
	if err != nil {
		return Origin{}, err
	}
	settings, err := s.Settings.Settings(ctx, owner)
	if err != nil {
		return Origin{}, err
	}
	return Origin{DisplayName: settings.DisplayName, SupportURL: settings.SupportURL, ReturnURL: session.ReturnTo(s.Now())}, nil
}

// recordDecline returns err, joined with the store's error if storing fails. If err is a refusal,
// recordDecline first marks the session of the flow as declined. Other errors, such as an outage of
// the platform or the store, do not change the session's status.
func (s *Service) recordDecline(ctx context.Context, flow ports.ConnectFlow, err error) error {
	if err == nil {
		return nil
	}
	switch fault.ErrorOf(err).Code.Kind {
	case fault.Invalid, fault.PaymentRequired, fault.Forbidden, fault.Conflict:
		return errors.Join(err, s.Sessions.AdvanceConnectSession(ctx, flow.Account, flow.StateHash, tenant.SessionDeclined, ""))
	}
	return err
}

// sessionIDs returns the id of the connect session of the flow that a cookie names. The flow of a
// link that an earlier release created has no session. sessionIDs then returns no id.
func (s *Service) sessionIDs(ctx context.Context, cookie secret.Text) ([]string, error) {
	id, err := flowID(cookie)
	if err != nil {
		return nil, err
	}
	_, session, err := s.Sessions.ConnectSessionOfLink(ctx, id)
	if errors.Is(err, fault.ConnectSessionUnknown) {
		return nil, nil
	}
	return []string{session.ID}, err
}
