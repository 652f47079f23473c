// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
)

// Fail answers with a planned status in the format of the host. It implements simulate.Provider.
func (s *simulator) Fail(w http.ResponseWriter, r *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	switch hostPrefix(r) {
	case loginHost:
		s.failLogin(w, r, status, retryAfter)
	case graphHost:
		s.failGraph(w, r, status, retryAfter)
	default:
		s.failExchange(w, r, status)
	}
}

// failLogin answers with the AADSTS error that belongs to a planned status.
func (s *simulator) failLogin(w http.ResponseWriter, r *http.Request, status, retryAfter int) {
	refusal := errTransient.with("")
	switch {
	case status == http.StatusBadRequest:
		refusal = errLoop.with("")
	case status == http.StatusUnauthorized:
		refusal = errSecret.with(s.registration().ClientID)
	case status == http.StatusTooManyRequests:
		refusal = errThrottled.with("")
	case status == http.StatusServiceUnavailable && retryAfter == 0:
		refusal = errTransientInput.with("")
	}
	refusal.status = status
	s.writeTokenError(w, r, refusal)
}

// plannedGraphErrors maps a planned status to the error that Graph returns with it.
var plannedGraphErrors = map[int]graphError{400: errValues, 401: errExpired, 403: errDenied, 404: errNotFound, 409: errSameKey,
	429: errTooMany, 500: errInternal, 502: errGateway, 503: errUnavailable, 504: errTimeout}

// failGraph answers with the Graph error that belongs to a planned status.
func (s *simulator) failGraph(w http.ResponseWriter, r *http.Request, status, retryAfter int) {
	refusal, known := plannedGraphErrors[status]
	switch {
	case known:
	case status < http.StatusInternalServerError:
		refusal = errValues // a permanent error of the request
	default:
		refusal = errTimeout
	}
	refusal.status = status
	if status == http.StatusTooManyRequests {
		s.throttleGraph(w, r, retryAfter)
	}
	s.writeGraphResult(w, r, result{refusal: refusal.with(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])})
}

// throttleGraph sets the headers that say what is throttled. If the setting ThrottleScope is
// applicationScope, it also records the wait for all tenants.
func (s *simulator) throttleGraph(w http.ResponseWriter, r *http.Request, retryAfter int) {
	kind := "Write"
	if r.Method == http.MethodGet {
		kind = "Read"
	}
	tenantID, scope := s.tenantInToken(r), ""
	if f := s.store.find(tenantID); f != nil {
		f.View(func(t *tenant) { scope = t.Behaviour.ThrottleScope })
	}
	if scope == applicationScope {
		s.applicationWait.extend(s.kit.Now(), retryAfter)
	}
	w.Header().Set("x-ms-throttle-scope", cmp.Or(scope, "Tenant_Application")+"/"+kind+"/"+s.registration().ClientID+"/"+tenantID)
	w.Header().Set("x-ms-throttle-information", kind+"LimitExceeded")
}

// tenantInToken returns the tid claim of the request's token, or "" if the token is missing or its
// signature is invalid. The token may have expired.
func (s *simulator) tenantInToken(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	claims, err := s.registration().verifyToken(token)
	if err != nil {
		return ""
	}
	tid, _ := claims["tid"].(string)
	return tid
}

// failExchange answers with a planned status. The body is empty for 401, 408 and 429, NUL bytes for
// 403, and HTML above 500. For all other statuses it is an exception: a transient one for 500, and
// a permanent one below 500. The setting Cmdlets can return transient exceptions with status 400.
func (s *simulator) failExchange(w http.ResponseWriter, r *http.Request, status int) {
	switch status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		writeStatus(w, status)
	case http.StatusForbidden:
		writeForbidden(w, true)
	case http.StatusNotFound:
		writeExchange(w, status, errNoTenant.with(tenantInExchangePath(r.URL.Path)).envelope())
	case http.StatusConflict:
		writeExchange(w, status, errObjectExists.with("").envelope())
	case http.StatusInternalServerError:
		writeExchange(w, status, errBackendTransient.with("").envelope())
	default:
		if status < http.StatusInternalServerError {
			writeExchange(w, status, errInvalid.with("The value of a parameter isn't valid.").envelope())
			return
		}
		title := http.StatusText(status)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html><head><title>" + title + "</title></head><body><h2>" + title + "</h2></body></html>"))
	}
}

// tenantInExchangePath returns ID of a path such as /exchange/adminapi/beta/ID/InvokeCommand.
func tenantInExchangePath(path string) string {
	parts := strings.Split(path, "/")
	return parts[min(4, len(parts)-1)]
}
