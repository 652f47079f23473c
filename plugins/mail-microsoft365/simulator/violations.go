// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// The rules for clients that a request can break. The journal records the broken rule.
// simulate.IgnoredRetryAfter is one more rule.
const (
	noUserAgent       = "no_user_agent"        // User-Agent is missing or is the default of Go
	noClientRequestID = "no_client_request_id" // client-request-id is missing or is not a GUID
	noConsistency     = "no_consistency_level" // $count and $search need ConsistencyLevel: eventual
	pageTooLarge      = "page_too_large"       // $top above 999
	noAnchor          = "no_anchor_mailbox"    // without X-AnchorMailbox, a request may reach a server with old data
	tokenLoop         = "token_loop"           // the client requested an app-only token too often
)

// A client may request at most maxTokenRequests app-only tokens for one API of one tenant within
// tokenWindow. Microsoft does not publish its own limit. A client that caches tokens needs far
// fewer requests, because a token is valid for about an hour.
const (
	maxTokenRequests = 20
	tokenWindow      = 5 * time.Minute
)

// violation returns the rule that a request of an application breaks, or "". At the login host, the
// rules apply only to token requests. Browsers send most of the other requests to this host.
func (s *simulator) violation(r *http.Request, call simulate.Call, body []byte) string {
	query := r.URL.Query()
	switch {
	case call.Host == loginHost && call.Operation != "token":
		return ""
	case r.UserAgent() == "" || strings.HasPrefix(r.UserAgent(), "Go-http-client"):
		return noUserAgent
	case !guidPattern.MatchString(r.Header.Get("client-request-id")):
		return noClientRequestID
	case call.Host == loginHost && s.tokenRequests.countAndCheck(call.Scope, body, s.kit.Now()):
		return tokenLoop
	case call.Host == graphHost && s.applicationWait.covers(s.kit.Now()):
		return simulate.IgnoredRetryAfter
	case call.Host == graphHost && (query.Has("$count") || query.Has("$search") || strings.HasSuffix(r.URL.Path, "/$count")) &&
		!strings.EqualFold(r.Header.Get("ConsistencyLevel"), "eventual"):
		return noConsistency
	case call.Host == graphHost && parseNumber(query.Get("$top")) > 999:
		return pageTooLarge
	case call.Host == exchangeHost && r.Header.Get("X-AnchorMailbox") == "":
		return noAnchor
	}
	return ""
}

func parseNumber(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// tokenCounter counts requests for app-only tokens, by tenant and API.
type tokenCounter struct {
	mu    sync.Mutex
	times map[string][]time.Time
}

// countAndCheck counts a request for an app-only token, and reports whether there were too many.
// For other requests it returns false.
func (t *tokenCounter) countAndCheck(tenant string, body []byte, now time.Time) bool {
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("grant_type") != "client_credentials" {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.times == nil {
		t.times = map[string][]time.Time{}
	}
	key := tenant + " " + form.Get("scope")
	recent := slices.DeleteFunc(t.times[key], func(at time.Time) bool { return now.Sub(at) >= tokenWindow })
	t.times[key] = append(recent, now)
	return len(t.times[key]) > maxTokenRequests
}

// applicationScope is a value of the behaviour ThrottleScope, and of the header
// x-ms-throttle-scope: Graph throttles the application in all tenants.
const applicationScope = "Application"

// applicationWait is the time during which the application must not call Graph in any tenant. The
// waits of single tenants are in package simulate.
type applicationWait struct {
	mu          sync.Mutex
	from, until time.Time
}

// inFlightTolerance is how long calls are allowed after the answer that begins a wait. The client
// may have sent such a call before it received that answer.
const inFlightTolerance = 200 * time.Millisecond

// extend records that the simulator answers with a Retry-After of this many seconds now.
func (a *applicationWait) extend(now time.Time, retryAfter int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !now.Before(a.until) {
		a.from = now.Add(inFlightTolerance)
	}
	if until := now.Add(time.Duration(retryAfter) * time.Second); until.After(a.until) {
		a.until = until
	}
}

// covers reports whether a call that arrives now ignores a Retry-After.
func (a *applicationWait) covers(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.After(a.from) && now.Before(a.until)
}
