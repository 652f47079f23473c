// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"net/url"
	"time"
)

// The lifetime of a connect link and of the flow that it starts.
const (
	DefaultLinkLifetime = 15 * time.Minute // if the request does not set one
	MaxLinkLifetime     = 7 * 24 * time.Hour
)

// SessionStatus is the status of a connect session.
type SessionStatus string

// The statuses of a connect session. Pending and consented sessions expire with their link.
const (
	SessionPending   SessionStatus = "pending"   // the link was created or opened
	SessionConsented SessionStatus = "consented" // an administrator signed in and the consent is proved
	SessionConnected SessionStatus = "connected" // the tenant is attached
	SessionDeclined  SessionStatus = "declined"  // the link was used and nothing was connected
	SessionExpired   SessionStatus = "expired"   // never stored, see StatusAt
)

// ConnectSession is one request of an account to connect a tenant. It can have several links, one
// after the other, and only the newest link is valid. The store deletes the sign-in data of old
// links, but keeps the session.
type ConnectSession struct {
	ID     string
	Status SessionStatus // as stored, see StatusAt
	// Tenant is the tenant of the consent. It is empty until the consent is proved.
	Tenant GUID
	// Lifetime is the lifetime of each link of the session. ExpiresAt is the expiry of the newest
	// link.
	Lifetime  time.Duration
	ExpiresAt time.Time
	// ReturnURL is the URL to which the last connect page links. If ReturnURL is empty, the page
	// has no such link. A State that is not empty is added to the query of the URL.
	ReturnURL, State string
}

// IsFinal reports whether the session has ended. A session that has ended does not expire. A new
// link makes a declined session pending again.
func (s SessionStatus) IsFinal() bool { return s == SessionConnected || s == SessionDeclined }

// StatusAt returns the status at the time now: the stored status, or SessionExpired.
func (s ConnectSession) StatusAt(now time.Time) SessionStatus {
	if !s.Status.IsFinal() && !now.Before(s.ExpiresAt) {
		return SessionExpired
	}
	return s.Status
}

// ReturnTo returns ReturnURL with the parameters session_id, result and state in its query. result
// is the status at the time now. An empty state is left out. ReturnTo returns "" if the session has
// no valid ReturnURL. The page at the URL must not trust the parameters, because anyone can write
// them.
func (s ConnectSession) ReturnTo(now time.Time) string {
	u, err := url.Parse(s.ReturnURL)
	if err != nil || s.ReturnURL == "" {
		return ""
	}
	query := u.Query()
	query.Set("session_id", s.ID)
	query.Set("result", string(s.StatusAt(now)))
	if s.State != "" {
		query.Set("state", s.State)
	}
	u.RawQuery = query.Encode()
	return u.String()
}
