// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"strconv"
	"strings"
)

// Fail implements simulate.Provider: a planned status in the form that the
// host in question gives it.
func (s *simulator) Fail(w http.ResponseWriter, r *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	switch hostOf(r) {
	case loginHost:
		s.failLogin(w, r, status, retryAfter)
	case graphHost:
		s.failGraph(w, r, status)
	default:
		s.failExchange(w, r, status)
	}
}

func (s *simulator) failLogin(w http.ResponseWriter, r *http.Request, status, retryAfter int) {
	refused := errTransient.of("")
	switch {
	case status == http.StatusBadRequest:
		refused = errLoop.of("")
	case status == http.StatusUnauthorized:
		refused = errSecret.of(s.registration().ClientID)
	case status == http.StatusTooManyRequests:
		refused = errThrottled.of("")
	case status == http.StatusServiceUnavailable && retryAfter == 0:
		refused = errTransientInput.of("")
	}
	refused.status = status
	s.refuseToken(w, r, refused)
}

// graphFailures are the refusals behind planned statuses.
var graphFailures = map[int]graphError{400: errValues, 401: errExpired, 403: errDenied, 404: errNotFound, 409: errSameKey,
	429: errTooMany, 500: errInternal, 502: errGateway, 503: errUnavailable, 504: errTimeout}

func (s *simulator) failGraph(w http.ResponseWriter, r *http.Request, status int) {
	refused, known := graphFailures[status]
	switch {
	case known:
	case status < http.StatusInternalServerError:
		refused = errValues // a fault of the request, for good
	default:
		refused = errTimeout
	}
	refused.status = status
	if status == http.StatusTooManyRequests {
		kind := "Write"
		if r.Method == http.MethodGet {
			kind = "Read"
		}
		w.Header().Set("x-ms-throttle-scope", "Tenant_Application/"+kind+"/"+s.registration().ClientID+"/"+s.tenantIn(r))
		w.Header().Set("x-ms-throttle-information", kind+"LimitExceeded")
	}
	s.graphAnswer(w, r, result{refused: refused.of(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])})
}

// tenantIn is the tenant that a call's token names, "" where there is none.
func (s *simulator) tenantIn(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	claims, err := s.registration().verify(token)
	if err != nil {
		return ""
	}
	tid, _ := claims["tid"].(string)
	return tid
}

// failExchange answers as the front door of Exchange does: bare for a throttle,
// HTML where no cmdlet spoke, and else an exception. One in a 4xx is for good;
// names of transient trouble inside a 400 come by a cmdlet's script.
func (s *simulator) failExchange(w http.ResponseWriter, r *http.Request, status int) {
	switch status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		bare(w, status)
	case http.StatusForbidden:
		forbidden(w, true)
	case http.StatusNotFound:
		writeExchange(w, status, errNoTenant.of(namedTenant(r.URL.Path)).envelope())
	case http.StatusConflict:
		writeExchange(w, status, errObjectExists.of("").envelope())
	case http.StatusInternalServerError:
		writeExchange(w, status, errTransientBack.of("").envelope())
	default:
		if status < http.StatusInternalServerError {
			writeExchange(w, status, errInvalid.of("The value of a parameter isn't valid.").envelope())
			return
		}
		title := http.StatusText(status)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html><head><title>" + title + "</title></head><body><h2>" + title + "</h2></body></html>"))
	}
}

// namedTenant is the tenant in the path of a call: /exchange/adminapi/beta/ID/….
func namedTenant(path string) string {
	parts := strings.Split(path, "/")
	return parts[min(4, len(parts)-1)]
}
